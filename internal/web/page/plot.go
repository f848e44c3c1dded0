package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// A plot is drawn in a field of plotWidth by plotHeight, which the page stretches.
const plotWidth, plotHeight = 1000.0, 200.0

// plot is a picture of numbers over time.
type plot struct {
	Title, About string // About is what it shows, for who does not see it
	Lines        []line
	Area         string // path below the first line; empty: there is none
	Axis         []axisMark
	Begin, End   when
	Spots        []spot
	Marks        []mark
	Legend       []legend
	Table        []plotRow
}

type line struct{ Class, Path string }

// axisMark is a number beside the plot, at so many percent from above.
type axisMark struct{ Y, Words string }

// spot is a stretch of the plot, which says its numbers to who points at it.
type spot struct{ X, W, Words string }

// mark is something that has happened, below the plot.
type mark struct{ X, Y, Class, Words string }

type legend struct{ Class, Words string }

// plotRow has the numbers of a moment.
type plotRow struct {
	At     when
	Values []string
}

// samplesOf are those of a job's life, to its present moment. A job that keeps none has those of the looks at it.
func samplesOf(j Job, now time.Time) []job.Sample {
	samples, all := j.Samples, slices.Clone(j.Samples)
	if j.Started.IsZero() {
		return samples
	}
	if len(samples) == 0 { // others begin with the beginning, which is that of the first run
		if !j.State.Final() {
			samples = j.noted
		}
		beginning := job.Sample{At: j.Started, OK: min(j.Resumed, firstDone(samples))} // what earlier runs have done was there at once
		all = append([]job.Sample{beginning}, samples...)
	}
	last := all[len(all)-1]
	end := now
	if j.Ended != nil {
		end = *j.Ended
	}
	if j.AsOf.IsZero() && end.After(last.At) && (len(samples) == 0 || j.Done() >= last.OK+last.Failed) && end.Sub(last.At) > time.Second {
		here := sampleOf(j.Report, end)
		here.P50, here.P95, here.Max = last.P50, last.P95, last.Max
		all = append(all, here)
	}
	return all
}

func firstDone(samples []job.Sample) int64 {
	if len(samples) == 0 {
		return 0
	}
	return samples[0].OK + samples[0].Failed
}

// timeScale places moments on a plot.
type timeScale struct{ from, to time.Time }

func (s timeScale) x(t time.Time) float64 {
	whole := s.to.Sub(s.from).Seconds()
	if whole <= 0 {
		return 0
	}
	return math.Max(0, math.Min(plotWidth, plotWidth*t.Sub(s.from).Seconds()/whole))
}

// ratePlot shows how many items were done a second; nil: there is nothing to show.
func ratePlot(samples []job.Sample) *plot {
	if len(samples) < 2 {
		return nil
	}
	scale := timeScale{samples[0].At, samples[len(samples)-1].At}
	var rates []float64
	most := 0.0
	for i := 1; i < len(samples); i++ {
		a, b := samples[i-1], samples[i]
		rate := 0.0
		if s := b.At.Sub(a.At).Seconds(); s > 0 {
			rate = math.Max(0, float64(b.OK+b.Failed-a.OK-a.Failed)/s)
		}
		rates = append(rates, rate)
		most = math.Max(most, rate)
	}
	top := nice(most)
	p := &plot{Title: "Rate", Begin: at(scale.from), End: at(scale.to)}
	p.About = fmt.Sprintf("Items a second from %s to %s: %s at most, %s at the end.", p.Begin.People, p.End.People, text.Rate(most), text.Rate(rates[len(rates)-1]))
	y := func(rate float64) float64 { return plotHeight * (1 - rate/top) }
	var path strings.Builder
	for i, rate := range rates {
		from, to := scale.x(samples[i].At), scale.x(samples[i+1].At)
		if i == 0 {
			fmt.Fprintf(&path, "M%s %s", number(from), number(y(rate)))
		}
		fmt.Fprintf(&path, "L%s %s", number((from+to)/2), number(y(rate)))
		if i == len(rates)-1 {
			fmt.Fprintf(&path, "L%s %s", number(to), number(y(rate)))
		}
		p.note(samples[i], samples[i+1], scale, perSecond(rate))
	}
	p.Lines = []line{{"rate", path.String()}}
	p.Area = path.String() + fmt.Sprintf("L%s %sL0 %[2]sZ", number(plotWidth), number(plotHeight))
	p.Axis = []axisMark{{"0", text.Rate(top) + "/s"}, {"50", text.Rate(top / 2)}, {"100", "0"}}
	p.mark(samples, scale)
	return p
}

// note has a stretch say its numbers.
func (p *plot) note(a, b job.Sample, scale timeScale, words string) {
	from, to := scale.x(a.At), scale.x(b.At)
	if words == "" {
		words = "0/s"
	}
	p.Spots = append(p.Spots, spot{number(from), number(math.Max(1, to-from)), at(b.At).People + ": " + words})
	p.Table = append(p.Table, plotRow{at(b.At), []string{words, text.Thousands(b.OK + b.Failed), text.Thousands(b.Failed)}})
}

// mark marks what has gone wrong.
func (p *plot) mark(samples []job.Sample, scale timeScale) {
	for row, kind := range []struct {
		class, noun string
		n           func(job.Sample) int64
	}{
		{"retry", "retry", func(s job.Sample) int64 { return s.Retries }},
		{"expiry", "expiry", func(s job.Sample) int64 { return s.Expiries }},
		{"death", "death", func(s job.Sample) int64 { return s.Deaths }},
	} {
		total := int64(0)
		for _, s := range samples {
			n := kind.n(s)
			if n <= 0 {
				continue
			}
			total += n
			p.Marks = append(p.Marks, mark{
				X: number(math.Max(0, math.Min(plotWidth-4, scale.x(s.At)-2))), Y: number(float64(row) * 12), Class: kind.class, Words: at(s.At).People + ": " + text.Count(n, kind.noun),
			})
		}
		if total > 0 {
			p.Legend = append(p.Legend, legend{kind.class, text.Count(total, kind.noun)})
		}
	}
}

// timesPlot shows how long calls took, on a logarithmic scale; nil: there is nothing to show.
func timesPlot(samples []job.Sample) *plot {
	var with []job.Sample
	for _, s := range samples {
		if s.Max > 0 {
			with = append(with, s)
		}
	}
	if len(with) < 2 {
		return nil
	}
	low, high := with[0].Max, time.Duration(0)
	for _, s := range with {
		low, high = min(low, max(s.P50, time.Microsecond)), max(high, s.Max)
	}
	bottom, top := math.Floor(math.Log10(low.Seconds())), math.Ceil(math.Log10(high.Seconds()))
	if top <= bottom {
		top = bottom + 1
	}
	scale := timeScale{samples[0].At, samples[len(samples)-1].At}
	p := &plot{Title: "Call times", Begin: at(scale.from), End: at(scale.to)}
	end := with[len(with)-1]
	p.About = fmt.Sprintf("How long calls took from %s to %s: at the end %s at the median, %s for 95 of 100, %s at most.", p.Begin.People, p.End.People, span(end.P50), span(end.P95), span(end.Max))
	y := func(d time.Duration) float64 {
		v := math.Log10(max(d, time.Microsecond).Seconds())
		return plotHeight * (1 - math.Max(0, math.Min(1, (v-bottom)/(top-bottom))))
	}
	for _, of := range []struct {
		class, words string
		d            func(job.Sample) time.Duration
	}{
		{"max", "max", func(s job.Sample) time.Duration { return s.Max }},
		{"p95", "p95", func(s job.Sample) time.Duration { return s.P95 }},
		{"p50", "p50", func(s job.Sample) time.Duration { return s.P50 }},
	} {
		var path strings.Builder
		for i, s := range with {
			fmt.Fprintf(&path, "%c%s %s", "ML"[min(i, 1)], number(scale.x(s.At)), number(y(of.d(s))))
		}
		p.Lines = append(p.Lines, line{of.class, path.String()})
		p.Legend = append(p.Legend, legend{of.class, of.words})
	}
	for i, s := range with {
		from := 0.0
		if i > 0 {
			from = scale.x(with[i-1].At)
		}
		words := fmt.Sprintf("p50 %s, p95 %s, max %s", span(s.P50), span(s.P95), span(s.Max))
		p.Spots = append(p.Spots, spot{number(from), number(math.Max(1, scale.x(s.At)-from)), at(s.At).People + ": " + words})
		p.Table = append(p.Table, plotRow{at(s.At), []string{span(s.P50), span(s.P95), span(s.Max)}})
	}
	step := math.Max(1, math.Ceil((top-bottom)/4))
	for v := top; v >= bottom; v -= step {
		p.Axis = append(p.Axis, axisMark{number(100 * (top - v) / (top - bottom)), span(time.Duration(math.Pow(10, v) * float64(time.Second)))})
	}
	return p
}

// nice rounds a number up to 1, 2 or 5 times a power of ten.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}
