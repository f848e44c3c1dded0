package page

import (
	"fmt"
	"math"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// span writes a duration in two units at most: "850ms", "12.3s", "4m 05s", "3h 20m", "2d 4h".
func span(d time.Duration) string {
	switch d = max(0, d); {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// ago is the time since t in whole seconds, as pages have it.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	if d < time.Second {
		return "now"
	}
	return span(d.Truncate(time.Second)) + " ago"
}

// when writes a time, in UTC: the script puts it into the reader's own zone.
type when struct{ Machine, People string }

func at(t time.Time) when {
	if t.IsZero() {
		return when{}
	}
	return when{t.UTC().Format(time.RFC3339), t.UTC().Format("2006-01-02 15:04:05") + " UTC"}
}

// perSecond writes a speed.
func perSecond(v float64) string {
	if v <= 0 {
		return ""
	}
	return text.Rate(v) + "/s"
}

// size writes a number of bytes.
func size(n int64) string {
	v, unit := float64(n), "B"
	for _, next := range []string{"KB", "MB", "GB", "TB"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return text.Rate(v) + " " + unit
}

// percentage writes a share of something, from 0 to 1.
func percentage(share float64) string {
	switch p := 100 * share; {
	case p > 0 && p < 1:
		return "<1%"
	default:
		return fmt.Sprintf("%d%%", int(math.Floor(p+1e-9))) // 29/100 is a little less than that
	}
}

// seconds returns a number of seconds as a duration.
func seconds(s *float64) time.Duration {
	if s == nil {
		return 0
	}
	return time.Duration(math.Min(*s, 1e9) * float64(time.Second))
}

// badge is a state in words, and the class that gives its colour and sign.
type badge struct{ Class, Sign, Words string }

// stateBadge is that of a job.
func stateBadge(s job.State, paused, stuck, silent bool, failed int64) badge {
	switch {
	case stuck:
		return badge{"bad", "!", "stuck"}
	case silent:
		return badge{"warn", "?", "silent"}
	case paused:
		return badge{"warn", "‖", "paused"}
	case s == job.Completed && failed > 0:
		return badge{"warn", "✓", "completed"}
	}
	return map[job.State]badge{
		job.Running: {"run", "▶", "running"}, job.Stopping: {"warn", "■", "stopping"}, job.Stopped: {"idle", "■", "stopped"},
		job.Completed: {"good", "✓", "completed"}, job.Failed: {"bad", "✕", "failed"},
	}[s]
}

// piece is a part of a bar, in percent of its length.
type piece struct {
	Class, Name, Words string
	X, W               string
}

// bar is a bar of pieces.
type bar struct {
	Pieces []piece
	Label  string // for who does not see it
}

// newBar lays pieces out beside each other; one that is not empty is seen.
func newBar(label string, whole float64, parts []part) bar {
	b := bar{Label: label}
	x := 0.0
	for _, p := range parts {
		if p.size <= 0 || whole <= 0 {
			continue
		}
		w := max(0.4, min(100-x, 100*p.size/whole))
		b.Pieces = append(b.Pieces, piece{Class: p.class, Name: p.name, Words: p.words, X: number(x), W: number(w)})
		x += w
	}
	return b
}

// part is what a piece of a bar is made of.
type part struct {
	class, name, words string
	size               float64
}

// number writes a number with two digits behind the point.
func number(v float64) string { return fmt.Sprintf("%.2f", v) }
