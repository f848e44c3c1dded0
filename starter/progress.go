package starter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/run/pace"
	"github.com/stint-run/stint/job"
)

// progress shows the progress of a job: a bar on a terminal, a line every few seconds elsewhere, JSON
// reports for a program. It is safe for concurrent use.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	json     bool
	terminal bool
	width    func() int // columns of the terminal; nil: not known
	drawn    bool       // a bar is on the terminal
	lastLine time.Time
	pace     pace.Pace
	said     map[string]bool
	unserved map[string]bool // pools without a worker, when it was looked last
	then     string          // what the job does once a worker serves its pool; empty: it continues
	refused  refusals
	lookedAt string // what a job does before it has planned an item; empty: not known
	silent   bool
	bare     bool // no progress: results are printed on the same terminal meanwhile
	// detailed also shows what each worker does, every detailEvery.
	detailed   bool
	lastDetail time.Time
	name       string // of the program; empty: stint
	// pageOf, which may be nil, returns the address of a job's readable page; "" if there is none.
	pageOf func(job.Report) string
}

const (
	lineEvery = 5 * time.Second
	// detailEvery is how often the work of each worker is shown.
	detailEvery = 15 * time.Second
)

// progressOf shows the progress of a job as the program's terminal allows.
func progressOf(p *Program, asJSON bool) *progress {
	kind, _ := p.lookup("TERM")
	show := newProgress(p.Stderr, p.Terminal && kind != "dumb", asJSON) // a dumb one only prints what it gets
	show.name, show.width, show.pageOf = p.name(), p.Width, p.pageOf
	return show
}

func newProgress(w io.Writer, terminal, asJSON bool) *progress {
	return &progress{w: w, terminal: terminal && !asJSON, json: asJSON, lastLine: time.Now(), said: map[string]bool{}, unserved: map[string]bool{}}
}

// pausedFor says for how long a job has been paused; "" if it is not.
func pausedFor(r job.Report) string {
	if r.PausedSince == nil {
		return ""
	}
	return fmt.Sprintf(", paused for %s", since(*r.PausedSince))
}

// every returns how often a report is wanted.
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(fmt.Sprintf(format, args...))
}

func (p *progress) say(text string) {
	if p.silent || p.said[text] {
		return
	}
	p.said[text] = true
	p.clear()
	fmt.Fprintln(p.w, text)
}

// served notes whether a pool has a worker.
func (p *progress) served(pool string, has bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if has {
		delete(p.unserved, pool)
	} else {
		p.unserved[pool] = true
	}
}

// show shows the job's state.
func (p *progress) show(r job.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.pace.Note(r, now)
	p.detail(r)
	p.page(r)
	if r.OnlySums() && !p.json {
		p.say(onlySums)
	}
	p.waits(r, now)
	if r.PausedSince != nil && !p.json {
		p.say(fmt.Sprintf("paused since %s: '%s unpause %s' has it go on", r.PausedSince.Local().Format(time.DateTime), cmp.Or(p.name, "stint"), r.Job))
	}
	if p.refused.see(r, now) && !p.json {
		p.say(onlyRefusals)
	}
	switch {
	case p.silent, p.bare:
	case p.json:
		p.tick(r, now)
	case p.terminal:
		p.draw(r)
	case time.Since(p.lastLine) >= lineEvery:
		p.lastLine = time.Now()
		fmt.Fprintf(p.w, "%s: %s\n", r.Job, p.line(r))
	}
}

// line returns the state of a job in one line.
func (p *progress) line(r job.Report) string {
	var b strings.Builder
	b.WriteString(itemsOf(r))
	if pct, ok := r.Percent(); ok {
		fmt.Fprintf(&b, " (%d%%)", pct)
	}
	if a := age(r); a != "" {
		fmt.Fprintf(&b, ", %s", a)
	}
	if len(p.unserved) > 0 && r.State == job.Running {
		fmt.Fprintf(&b, ", no worker serves %s", strings.Join(slices.Sorted(maps.Keys(p.unserved)), ", "))
	}
	speed, _ := p.pace.Speed()
	if speed.Items > 0 {
		fmt.Fprintf(&b, ", %s/s", text.Rate(speed.Items))
	}
	if left, ok := r.TimeLeft(speed); ok {
		fmt.Fprintf(&b, ", %v left", left.Round(time.Second))
	}
	if f := r.Feed; f != nil && !r.State.Final() {
		fmt.Fprintf(&b, ", %s of %s places taken", text.Thousands(int64(f.Backlog)), text.Thousands(int64(f.Capacity)))
		if !f.StalledSince.IsZero() {
			fmt.Fprintf(&b, ", stalled: none has finished for %s", since(f.StalledSince))
		}
	}
	fmt.Fprintf(&b, ", %s", counts(r))
	if t := r.Throttle; t != nil {
		fmt.Fprintf(&b, ", slowed down %s", t)
	}
	if r.State == job.Stopping {
		b.WriteString(", stopping")
	}
	b.WriteString(pausedFor(r))
	switch o := r.Outage; {
	case o != nil:
		fmt.Fprintf(&b, "; waiting %s", o)
	case r.LastFailure != "":
		fmt.Fprintf(&b, "; last retry: %s", r.LastFailure)
	}
	return b.String()
}

// itemsOf says how many items are done, of how many if that is known.
func itemsOf(r job.Report) string {
	switch {
	case r.Loop != nil:
		return loopLine(r)
	case r.PlanDone || r.Feed != nil:
		return fmt.Sprintf("%s of %s items", text.Thousands(r.Done()), text.Thousands(r.Planned))
	}
	return text.Thousands(r.Done()) + " items"
}

func counts(r job.Report) string {
	s := fmt.Sprintf("%s failed", text.Thousands(r.Failed))
	for _, trouble := range []struct {
		n    int64
		text string
	}{
		{r.Retries, text.Count(r.Retries, "retry")}, {r.Crashes, text.Count(r.Crashes, "crash")},
		{r.Expiries, text.Thousands(r.Expiries) + " expired"},
		{r.Isolations, text.Count(r.Isolations, "isolation")}, {r.SlowDowns, text.Count(r.SlowDowns, "slow-down")},
	} {
		if trouble.n > 0 {
			s += ", " + trouble.text
		}
	}
	if spent := r.Spent(); !spent.IsZero() {
		s += ", " + spent.String()
	}
	return s
}

// onlySums warns of a handler such as 'wc -l': it answers single items, but their results are not what was meant.
const onlySums = "warning: calls of several items get one result, so that only single items go through: the handler seems to sum its " +
	"items up, as 'wc -l' does; a filter answers n lines with n lines"

// detail shows the first failure, once, and from time to time what each worker does.
func (p *progress) detail(r job.Report) {
	if !p.detailed || p.json {
		return
	}
	if e := r.FirstError; e != nil {
		p.say(fmt.Sprintf("first failed item: %s%s: %s", text.Thousands(e.Item), e.Label(), firstLine(e.Error.Message)))
	}
	if l := r.Loop; l != nil && l.Warning(r.Pool) != "" {
		p.say(l.Warning(r.Pool))
	}
	if time.Since(p.lastDetail) >= detailEvery && len(r.Workers) > 0 {
		p.lastDetail = time.Now()
		p.say(shares(r))
		for _, stage := range r.Stages {
			p.say("  stage " + stage.Stage + ": " + describeStage(r, stage))
		}
	}
}

// maxShares is how many workers are named in one line, the busiest ones.
const maxShares = 4

// shares says in one line what the workers have done and which batch runs for longest.
func shares(r job.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s, %s:", text.Count(r.Legs, "leg"), text.Count(len(r.Workers), "worker"))
	for _, w := range r.Workers[:min(len(r.Workers), maxShares)] {
		fmt.Fprintf(&b, " %s %s,", w.Worker, text.Count(w.Items, "item"))
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

// age says how old a report's numbers are if not all of the job's workflows have answered; "" otherwise.
func age(r job.Report) string {
	if r.AsOf.IsZero() {
		return ""
	}
	return fmt.Sprintf("numbers of %v ago", time.Since(r.AsOf).Round(time.Second))
}

// page prints the address of the job's page once.
func (p *progress) page(r job.Report) {
	if p.pageOf == nil || p.json || r.Run == "" {
		return
	}
	if url := p.pageOf(r); url != "" {
		p.say("page: " + url)
	}
	p.pageOf = nil
}

// end takes the bar away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// below names a location as seen from dir, if it lies below it.
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

// tick is one line of --json: a report, when it was made, and what follows from several of them.
type tick struct {
	Time time.Time `json:"time"`
	// AgeSeconds is how old the numbers are; left out if all of the job's workflows have answered.
	AgeSeconds float64 `json:"age_seconds,omitempty"`
	// ItemsDone are items with an outcome. ItemsPerSecond is their number in a second, and BytesPerSecond that of their
	// input, in the last seconds; both are 0 if nothing was done then.
	ItemsDone      int64   `json:"items_done"`
	ItemsPerSecond float64 `json:"items_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Percent, of the input, and SecondsLeft are left out if they are not known.
	Percent     *int64   `json:"percent,omitempty"`
	SecondsLeft *float64 `json:"seconds_left,omitempty"`
	job.Report
}

// tick prints a report as JSON.
func (p *progress) tick(r job.Report, now time.Time) {
	speed, _ := p.pace.Speed()
	t := tick{Time: now.UTC(), ItemsDone: r.Done(), ItemsPerSecond: max(0, speed.Items), BytesPerSecond: max(0, speed.Bytes), Report: r}
	if !r.AsOf.IsZero() {
		t.AgeSeconds = now.Sub(r.AsOf).Seconds()
	}
	if percent, ok := r.Percent(); ok {
		t.Percent = &percent
	}
	if left, ok := r.TimeLeft(speed); ok && !r.State.Final() {
		seconds := left.Seconds()
		t.SecondsLeft = &seconds
	}
	_ = json.NewEncoder(p.w).Encode(t) // nobody could receive the error
}
