package starter

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/stint-run/stint/job"
)

// progress shows a person how a job goes on: a bar on a terminal, a line every few seconds
// elsewhere, JSON reports where a program reads.
type progress struct {
	w        io.Writer
	json     bool
	terminal bool
	bar      *progressbar.ProgressBar
	lastLine time.Time
	began    time.Time
	history  []sample
	said     map[string]bool
	silent   bool
	// detailed has who does what told, too, every detailEvery.
	detailed   bool
	lastDetail time.Time
}

type sample struct {
	at    time.Time
	done  int64
	bytes int64
}

const (
	lineEvery = 5 * time.Second
	// detailEvery is how often it is told who does what.
	detailEvery = 15 * time.Second
	rateWindow  = 15 * time.Second
	barWidth    = 24
)

func newProgress(w io.Writer, terminal, asJSON bool) *progress {
	return &progress{w: w, terminal: terminal && !asJSON, json: asJSON, began: time.Now(), lastLine: time.Now(), said: map[string]bool{}}
}

// every is how often a report is wanted.
func (p *progress) every() time.Duration {
	switch {
	case p.silent:
		return time.Hour // none; the job's end is waited for otherwise
	case p.terminal:
		return pollEvery
	case p.json:
		return time.Second
	}
	return lineEvery
}

// note prints a message once, above the bar.
func (p *progress) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.silent || p.said[text] {
		return
	}
	p.said[text] = true
	if p.bar != nil {
		_ = p.bar.Clear() // only looks
	}
	fmt.Fprintln(p.w, text)
}

// show tells how the job stands.
func (p *progress) show(r job.Report) {
	p.sample(r)
	p.detail(r)
	switch {
	case p.silent:
	case p.json:
		_ = json.NewEncoder(p.w).Encode(r) // nobody to tell
	case p.terminal:
		p.showBar(r)
	case time.Since(p.lastLine) >= lineEvery:
		p.lastLine = time.Now()
		fmt.Fprintf(p.w, "%s: %s\n", r.Job, p.line(r))
	}
}

func (p *progress) sample(r job.Report) {
	now := time.Now()
	p.history = append(p.history, sample{now, r.Done() - r.Resumed, r.InputBytes})
	for len(p.history) > 2 && now.Sub(p.history[0].at) > rateWindow {
		p.history = p.history[1:]
	}
}

// speed returns items and bytes a second, of late.
func (p *progress) speed() (items, bytes float64) {
	if len(p.history) < 2 {
		return 0, 0
	}
	first, last := p.history[0], p.history[len(p.history)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	return float64(last.done-first.done) / seconds, float64(last.bytes-first.bytes) / seconds
}

// left estimates the time to the end, by bytes where the size of the input is known, otherwise by
// the items planned; ok is false where there is nothing to go by.
func (p *progress) left(r job.Report) (d time.Duration, ok bool) {
	items, bytes := p.speed()
	var seconds float64
	switch {
	case r.TotalBytes > 0 && bytes > 0:
		seconds = float64(r.TotalBytes-r.InputBytes) / bytes
	case r.PlanDone && items > 0:
		seconds = float64(r.Planned-r.Done()) / items
	default:
		return 0, false
	}
	return time.Duration(max(0, seconds) * float64(time.Second)).Round(time.Second), true
}

// line is the state of a job in one line.
func (p *progress) line(r job.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", job.Thousands(r.Done()))
	if r.PlanDone {
		fmt.Fprintf(&b, " of %s", job.Thousands(r.Planned))
	}
	b.WriteString(" items")
	if pct, ok := percent(r); ok {
		fmt.Fprintf(&b, " (%d%%)", pct)
	}
	if items, _ := p.speed(); items > 0 {
		fmt.Fprintf(&b, ", %s/s", rate(items))
	}
	if left, ok := p.left(r); ok {
		fmt.Fprintf(&b, ", %v left", left)
	}
	fmt.Fprintf(&b, ", %s", counts(r))
	if t := r.Throttle; t != nil {
		fmt.Fprintf(&b, ", slowed down %s", t)
	}
	if r.State == job.Stopping {
		b.WriteString(", stopping")
	}
	if r.LastFailure != "" {
		fmt.Fprintf(&b, "; last retry: %s", r.LastFailure)
	}
	return b.String()
}

func counts(r job.Report) string {
	s := fmt.Sprintf("%s failed", job.Thousands(r.Failed))
	if r.Retries > 0 {
		s += fmt.Sprintf(", %s retries", job.Thousands(r.Retries))
	}
	if r.Crashes > 0 {
		s += fmt.Sprintf(", %s crashes", job.Thousands(r.Crashes))
	}
	if r.Expiries > 0 {
		s += fmt.Sprintf(", %s expired", job.Thousands(r.Expiries))
	}
	if r.Isolations > 0 {
		s += fmt.Sprintf(", %s isolations", job.Thousands(r.Isolations))
	}
	return s
}

// detail tells what has failed first, once, and from time to time who does what.
func (p *progress) detail(r job.Report) {
	if !p.detailed || p.json {
		return
	}
	if e := r.FirstError; e != nil {
		p.note("first failed item: %s (%s): %s", job.Thousands(e.Item), e.Kind, firstLine(e.Error.Message))
	}
	if time.Since(p.lastDetail) >= detailEvery && len(r.Workers) > 0 {
		p.lastDetail = time.Now()
		p.note("%s", shares(r))
	}
}

// maxShares is how many workers are named in one line, the busiest ones.
const maxShares = 4

// shares tells in one line what the workers have done and which batch runs for longest.
func shares(r job.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %d legs, %d workers:", r.Legs, len(r.Workers))
	for _, w := range r.Workers[:min(len(r.Workers), maxShares)] {
		fmt.Fprintf(&b, " %s %s items,", w.Worker, job.Thousands(w.Items))
	}
	text := strings.TrimSuffix(b.String(), ",")
	if len(r.Workers) > maxShares {
		text += ", …"
	}
	if r.Oldest != "" {
		text += "; oldest in flight: " + r.Oldest
	}
	return text
}

func rate(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return job.Thousands(int64(v))
}

func percent(r job.Report) (int64, bool) {
	switch {
	case r.TotalBytes > 0:
		return min(100, 100*r.InputBytes/r.TotalBytes), true
	case r.PlanDone && r.Planned > 0:
		return 100 * r.Done() / r.Planned, true
	}
	return 0, false
}

func (p *progress) showBar(r job.Report) {
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(100,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(barWidth),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionShowDescriptionAtLineEnd(), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerHead: "█", SaucerPadding: "░"}))
	}
	p.bar.Describe(p.line(r))
	pct, _ := percent(r)
	_ = p.bar.Set64(min(99, pct)) // only looks; the bar goes when the job ends
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear() // only looks
		p.bar = nil
	}
}

// summary tells in a few lines how a job has ended. Files below dir are named from there.
func summary(w io.Writer, dir string, r job.Report, took time.Duration) {
	speed := ""
	fresh := r.Done()
	if r.Redriven > 0 {
		fresh = r.Redriven
	}
	if fresh -= r.Resumed; fresh > 0 && took > 0 {
		speed = fmt.Sprintf(", %s/s", rate(float64(fresh)/took.Seconds()))
	}
	fmt.Fprintf(w, "%s: %s: %s items ok, %s in %s%s\n", r.Job, r.State, job.Thousands(r.OK), counts(r), roundTime(took), speed)
	if r.Dropped > 0 {
		fmt.Fprintf(w, "  %s items gave no result\n", job.Thousands(r.Dropped))
	}
	if r.Redriven > 0 {
		fmt.Fprintf(w, "  %s items that had failed were run again\n", job.Thousands(r.Redriven))
	}
	if r.Resumed > 0 {
		fmt.Fprintf(w, "  %s items were done by earlier runs\n", job.Thousands(r.Resumed))
	}
	if e := r.FirstError; e != nil {
		fmt.Fprintf(w, "  first failed item: %s (%s): %s\n", job.Thousands(e.Item), e.Kind, firstLine(e.Error.Message))
	}
	if r.Error != nil {
		fmt.Fprintf(w, "  error: %s\n", r.Error.Message)
	}
	for _, h := range r.Hooks {
		if h.Error != nil || h.Skipped != "" {
			fmt.Fprintf(w, "  hook: %s\n", describeHook(h))
		}
	}
	if n := len(r.LaterErrors) + r.LaterErrorsOmitted; n > 0 {
		fmt.Fprintf(w, "  later errors: %d, the first: %s\n", n, firstLine(r.LaterErrors[0].Error()))
	}
	for _, s := range r.Stragglers {
		fmt.Fprintf(w, "  still running: %s\n", s)
	}
	if o := r.Output; o != nil {
		if o.Location != "" {
			fmt.Fprintf(w, "  output: %s\n", below(dir, o.Location))
		}
		if o.Errors != "" {
			fmt.Fprintf(w, "  errors: %s\n", below(dir, o.Errors))
		}
	}
}

// below names a location as it is seen from dir, where it lies below it.
func below(dir, location string) string {
	return strings.TrimPrefix(location, strings.TrimSuffix(dir, "/")+"/")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func roundTime(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Second)
}
