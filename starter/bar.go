package starter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// The bar is one line of a terminal, of its width: if parts have no room, the least important ones are left out first.

const (
	// anyWidth is taken for that of a terminal of unknown width.
	anyWidth = 80
	// leastBar and mostBar bound the bar itself, in columns.
	leastBar, mostBar = 6, 24
	// leastCut is how much of a long part must have room.
	leastCut = 12
	// separator stands between two parts, and takes so many columns.
	separator, between = " · ", 3
)

// segment is a part of the line.
type segment struct {
	text string
	rank int  // parts of a lower rank get room first
	long bool // it may be cut
}

// draw draws the bar over the last one.
func (p *progress) draw(r job.Report) {
	width := 0
	if p.width != nil {
		width = p.width()
	}
	width = cmp.Or(width, anyWidth)
	speed, _ := p.pace.Speed()
	fmt.Fprintf(p.w, "\r%s\x1b[K", barLine(r, speed, width-1)) // the last column would have some terminals begin another line
	p.drawn = true
}

// clear takes the bar away.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// barLine returns the bar of a job in at most so many columns. Where there is no room for a bar, the percentage stands
// alone.
func barLine(r job.Report, speed job.Speed, width int) string {
	percent, known := r.Percent()
	if !known || r.Feed != nil || r.Loop != nil {
		return strings.Join(fit(barParts(r, speed), width+between), separator) // none stands before the first part
	}
	percent = min(99, percent) // the bar goes when the job ends
	head := fmt.Sprintf(" %d%%", percent)
	if width < leastBar+len(head) {
		return cut(head[1:], width)
	}
	line := head
	for _, p := range fit(barParts(r, speed), width-leastBar-len(head)) {
		line += separator + p
	}
	cells := min(mostBar, width-columns(line))
	full := int(percent) * cells / 100
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full) + line
}

// fit returns the parts that have room, in their order.
func fit(parts []segment, room int) []string {
	chosen := make([]string, len(parts))
	order := make([]int, len(parts))
	for i := range parts {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return parts[a].rank - parts[b].rank })
	for _, i := range order {
		text := parts[i].text
		if left := room - between; parts[i].long && columns(text) > left && left >= leastCut {
			text = cut(text, left)
		}
		if n := columns(text) + between; text != "" && n <= room {
			chosen[i] = text
			room -= n
		}
	}
	return slices.DeleteFunc(chosen, func(s string) bool { return s == "" })
}

// barParts returns all parts of a bar.
func barParts(r job.Report, speed job.Speed) []segment {
	parts := []segment{{text: itemsInShort(r)}}
	add := func(rank int, format string, args ...any) {
		parts = append(parts, segment{text: fmt.Sprintf(format, args...), rank: rank})
	}
	if a := age(r); a != "" {
		add(1, "%s", a)
	}
	if speed.Items > 0 {
		add(4, "%s/s", text.Rate(speed.Items))
	}
	if left, ok := r.TimeLeft(speed); ok {
		add(3, "%v left", left.Round(time.Second))
	}
	if r.State == job.Stopping {
		add(1, "stopping")
	}
	if r.PausedSince != nil {
		add(1, "paused")
	}
	for _, n := range []struct {
		rank int
		of   int64
		what string
	}{{2, r.Failed, "failed"}, {7, r.Retries, "retries"}, {6, r.Crashes, "crashes"}, {6, r.Expiries, "expired"}, {8, r.Isolations, "isolations"}} {
		if n.of > 0 {
			add(n.rank, "%s %s", text.Thousands(n.of), n.what)
		}
	}
	if f := r.Feed; f != nil && !r.State.Final() {
		if !f.StalledSince.IsZero() {
			add(2, "stalled for %s", since(f.StalledSince))
		}
		add(5, "%s of %s places taken", text.Thousands(int64(f.Backlog)), text.Thousands(int64(f.Capacity)))
	}
	if t := r.Throttle; t != nil {
		add(5, "slowed down %s", t)
	}
	switch o := r.Outage; {
	case o != nil:
		parts = append(parts, segment{text: plain("waiting " + o.String()), rank: 2, long: true})
	case r.LastFailure != "":
		parts = append(parts, segment{text: plain("last retry: " + r.LastFailure), rank: 9, long: true})
	}
	return parts
}

// itemsInShort says how many items are done, of how many if that is known.
func itemsInShort(r job.Report) string {
	switch {
	case r.Loop != nil:
		return text.Thousands(r.Loop.Ticks) + " ticks"
	case r.PlanDone || r.Feed != nil:
		return text.Thousands(r.Done()) + "/" + text.Thousands(r.Planned)
	}
	return text.Thousands(r.Done()) + " items"
}

// plain returns the first line of a text without control characters.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, firstLine(s))
}

// columns returns how many columns a terminal needs for the text, which has no control characters.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

// columnsOf counts scripts whose characters may be wide as two columns: too many is harmless.
func columnsOf(r rune) int {
	if r >= 0x1100 && (r < 0x2000 || r >= 0x2e80) {
		return 2
	}
	return 1
}

// cut shortens a text that needs more to so many columns.
func cut(s string, width int) string {
	switch {
	case width <= 0:
		return ""
	case columns(s) <= width:
		return s
	}
	n := 0
	for i, r := range s {
		if n += columnsOf(r); n > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}
