package starter

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/job"
)

// linesOf returns what writes a line.
func linesOf(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

// printWhole prints how much there is to do.
func printWhole(line func(string, ...any), items int64, inputs int, bytes int64, s predict.Sample) {
	line("%s in %s (%s)", text.Count(items, "item"), text.Count(inputs, "input"), size(bytes))
	switch {
	case items == 0:
		line("nothing to do")
	case s.OK == 0:
		line("no item of the sample was ok: the figures below are those of failing items")
	}
}

// printSample prints what has become of the sample.
func printSample(line func(string, ...any), s predict.Sample) {
	line("sample    %s from all over the inputs: %s ok, %s failed, in %s, %v",
		text.Count(s.Items, "item"), text.Thousands(s.OK), text.Thousands(s.Failed), text.Count(s.Calls+s.FailedCalls, "call"), roundTime(s.Took))
	if e := s.FirstError; e != nil {
		line("          first failed item: %s%s: %s", text.Thousands(e.Item), e.Label(), firstLine(e.Error.Message))
	}
}

// printPrediction prints a prediction for a person, the most important first.
func printPrediction(w io.Writer, p predict.Prediction) error {
	var b strings.Builder
	line := linesOf(&b)
	printWhole(line, p.Items, p.Inputs, p.Bytes, p.Sample)
	line("about %s%s %s", span(p.Seconds.Value), bounds(p.Seconds), places(p))
	line("%s of about %s, %s", text.Count(p.Batches, "batch"), text.Count(p.BatchItems, "item"), text.Count(p.Legs, "leg"))
	line("about %s events of history, %s actions on Temporal Cloud", round(p.Events), round(p.Actions))
	printNeeds(line, p.Needs, p.Sample)
	line("about %s of results; about %s of memory for a worker with the server in it, and what the command takes", size(p.ResultBytes), size(p.MemoryBytes))
	line("")
	s := p.Sample
	printSample(line, s)
	line("measured  an item takes %s%s of a slot, with its share of %s to start a call of %s",
		span(p.ItemSeconds.Value), bounds(p.ItemSeconds), span(p.StartSeconds), text.Count(p.CallItems, "item"))
	if s.SlowDowns > 0 {
		line("          %s of the handler waited out: the job takes at least as long for each item as the sample has",
			text.Count(s.SlowDowns, "slow-down request"))
	}
	if p.Seconds.Low != nil && !narrow(p.Seconds) {
		line("          the calls took too different times for a range of the whole time: try %s", text.Count(4*s.Items, "item"))
	}
	if p.Seconds.Low == nil && p.Items > 0 {
		line("          too few calls for error bars, and to separate the start of a call from its items: try 100 items")
	}
	line("assumed   a batch takes 10 ms beside its calls, the server does 300 batches a second, input and")
	line("          output pass at 500 MB/s; items that were not drawn are like those that were; nothing else")
	line("          keeps the machine busy; memory is a guess (a quarter more or less)")
	_, err := io.WriteString(w, b.String())
	return err
}

// printPipeline prints the prediction of a job with stages, the most important first.
func printPipeline(w io.Writer, p predict.Pipeline) error {
	var b strings.Builder
	line := linesOf(&b)
	printWhole(line, p.Items, p.Inputs, p.Bytes, p.Sample)
	line("about %s%s with %s of each pool like this one: the slowest stage is %s", span(p.Seconds.Value), bounds(p.Seconds), text.Count(p.Workers, "worker"), p.Slowest)
	line("%s of about %s, at most %s of each, %s", text.Count(p.Batches, "batch"), text.Count(p.BatchItems, "item"), text.Count(p.Steps, "execution"), text.Count(p.Legs, "leg"))
	line("about %s events of history, %s actions on Temporal Cloud; about %s of results", round(p.Events), round(p.Actions), size(p.ResultBytes))
	printNeeds(line, p.Needs, p.Sample)
	line("")
	table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "STAGE\tPOOL\tSLOTS\tITEMS\tOK\tFAILED\tAN ITEM TAKES\tALL TAKE")
	for _, s := range p.Stages {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s%s\n", s.Stage, s.Pool, s.Slots, text.Thousands(s.Items),
			text.Thousands(s.Sample.OK), text.Thousands(s.Sample.Failed), span(s.ItemSeconds.Value), span(s.Seconds.Value), bounds(s.Seconds))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	line("")
	printSample(line, p.Sample)
	line("assumed   all pools work at the same time and do not get into each other's way; a batch takes 10 ms in")
	line("          each stage beside its calls, the server does 300 executions a second, input and output pass")
	line("          at 500 MB/s; items that were not drawn are like those that were")
	_, err := io.WriteString(w, b.String())
	return err
}

// tenThousandth of a unit of money is as exact as an estimate says.
const tenThousandth job.Money = 1e8

// printNeeds prints what a job uses of services that are paid for.
func printNeeds(line func(string, ...any), n predict.Needs, s predict.Sample) {
	if n.Late {
		line("the deadline seems to come before that")
	}
	if n.Usage.IsZero() {
		return
	}
	u := n.Usage
	if u.Cost > 100*tenThousandth {
		u.Cost = u.Cost / tenThousandth * tenThousandth // it is an estimate
	}
	line("about %s; the sample has used %s", u, s.Usage)
	if n.Affordable > 0 {
		line("the budget is enough for about %s", text.Count(n.Affordable, "item"))
	}
}

// places says how many calls are made at once, and where.
func places(p predict.Prediction) string {
	s := fmt.Sprintf("with %s here", text.Count(p.Slots, "slot"))
	if p.Workers > 1 {
		s = fmt.Sprintf("on %d workers like this one with %s each", p.Workers, text.Count(p.Slots, "slot"))
	}
	if p.Parallel < p.Slots*p.Workers {
		s += fmt.Sprintf(", of which --window allows %d", p.Parallel)
	}
	return s
}

func size(bytes int64) string { return humanize.Bytes(uint64(max(0, bytes))) }

// round keeps two digits, or three.
func round(n int64) string {
	unit := int64(1)
	for n/unit >= 1000 {
		unit *= 10
	}
	return text.Thousands((n + unit/2) / unit * unit)
}

// widest is the greatest ratio of a range's bounds: a wider one says too little to be printed.
const widest = 3

// narrow reports whether an estimate's range is narrow enough to be printed.
func narrow(e predict.Estimate) bool {
	return e.Low != nil && e.High != nil && *e.High < widest**e.Low
}

func bounds(e predict.Estimate) string {
	if !narrow(e) {
		return ""
	}
	return fmt.Sprintf(" (95 %%: %s to %s)", span(*e.Low), span(*e.High))
}

// span writes a time with as many digits as a prediction deserves: 3.4 µs, 12 s, 4 h 10 min.
func span(seconds float64) string {
	const centuries = 4e9 // what a Duration holds, about halved
	switch d := time.Duration(math.Min(seconds, centuries) * float64(time.Second)); {
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", seconds*1e6)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", seconds*1e3)
	case seconds < 9.95:
		return fmt.Sprintf("%.1f s", seconds)
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", seconds)
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		d = d.Round(5 * time.Minute)
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		d = d.Round(time.Hour)
		return fmt.Sprintf("%s d %d h", text.Thousands(int64(d.Hours())/24), int(d.Hours())%24)
	}
}
