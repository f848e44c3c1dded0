package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// jobView is what the template of a job gets.
type jobView struct {
	Name, Run, Pool string
	Badge           badge
	Source          string // where the items come from
	Headline        string // how far it is, in a few words
	Notices         []notice
	Tiles           []tile
	Whole           bar
	Counts          []count
	Plots           []*plot
	Failures        []groupView
	FailuresNote    string
	Stages          *stagesView
	Kind            []factGroup // what only jobs of its kind have
	Limits          []gauge     // what is used of services that are paid for
	Slots           []slotRow
	SlotsMore       int
	Shares          []shareRow
	Settings        [][2]string
	Facts           []fact
	Actions         []actionView
	May             bool // actions can be carried out
	Temporal        string
	Started, Ended  when
	Took            string
	Announce        string // for who does not see it, when it changes
}

// notice is something that a person should know.
type notice struct{ Class, Title, Text string }

// tile is a number in large letters.
type tile struct {
	Name, Value, More, Class string
	At                       when // after More
}

// count is a part of the bar in words.
type count struct{ Class, Name, Value string }

type fact struct {
	Name, Value string
	Copy        bool
}

type factGroup struct {
	Title string
	Facts []fact
	Gauge *gauge
}

// gauge shows how much of a limit is used.
type gauge struct {
	Name, Words string
	Bar         bar
}

type groupView struct {
	Count, Label, Message, Pattern, Stage string
	Share                                 bar
	Examples                              []exampleView
	Where, Command                        string
	May                                   bool // it can be run again now
}

type exampleView struct {
	Item, Source, Input, Label, Message, Stack string
	Attempts                                   string
}

type slotRow struct {
	Worker, Slot, Batch, For, Heard, Pool string
	Calls                                 string
	Timers                                []string
	Slow                                  bool
	Share                                 bar // of the time that the oldest has run
}

type shareRow struct {
	Worker, Items, Batches, Busy, Last string
	Bar                                bar
}

type actionView struct {
	Name, Label, Hint, Command, Path string
	Fields                           []field
	Danger                           bool
}

// shownSlots is how many batches in hand are shown, the oldest ones, and shownShares how many workers, the busiest.
const shownSlots, shownShares = 50, 20

// newJobView makes what the template gets.
func (p *Page) newJobView(j Job, now time.Time) jobView {
	failed := j.Failed
	v := jobView{
		Name: j.Report.Job, Run: j.Run, Pool: j.Pool, Started: at(j.Started), Took: span(now.Sub(j.Started).Truncate(time.Second)),
		Badge: stateBadge(j.State, j.PausedSince != nil, false, j.Trouble != "", failed), May: p.options.Actions,
	}
	if j.Ended != nil {
		v.Ended, v.Took = at(*j.Ended), span(j.Ended.Sub(j.Started))
	}
	if p.options.Temporal != "" && j.Run != "" {
		v.Temporal = fmt.Sprintf("%s/workflows/%s/%s/history", p.options.Temporal, pathEscape(j.Report.Job), pathEscape(j.Run))
	}
	v.Headline, v.Announce = headline(j), fmt.Sprintf("%s %s", v.Badge.Words, tenths(j))
	v.notices(j, now)
	v.tiles(j, now)
	v.whole(j)
	samples := samplesOf(j, now)
	for _, one := range []*plot{ratePlot(samples), timesPlot(samples)} {
		if one != nil {
			v.Plots = append(v.Plots, one)
		}
	}
	p.groups(&v, j)
	v.Stages = newStagesView(j, now)
	v.Kind, v.Limits = kindFacts(j, now), usageGauges(j)
	v.slots(j, now)
	v.shares(j, now)
	v.Settings, v.Facts = settingsOf(j), factsOf(j)
	for _, a := range actions {
		if a.fits(j.Report) {
			v.Actions = append(v.Actions, actionView{
				Name: a.name, Label: a.label, Hint: a.hint, Command: p.command(append([]string{a.name, j.Report.Job}, placeholders(a)...)...),
				Path: apiPath + "/jobs/" + pathEscape(j.Report.Job) + "/" + a.name, Fields: a.fields, Danger: a.name == "stop",
			})
		}
	}
	return v
}

// placeholders are words of a command that need a value.
func placeholders(a action) []string {
	if a.name == "set" {
		return []string{"window=8"}
	}
	return nil
}

// headline says how far a job is.
func headline(j Job) string {
	if j.Loop != nil {
		return text.Count(j.Loop.Ticks, "tick")
	}
	said := text.Thousands(j.Done())
	if j.PlanDone || j.Feed != nil {
		said += " of " + text.Thousands(j.Planned)
	}
	said += " items done"
	if !j.PlanDone && j.Feed == nil && !j.State.Final() {
		said += ", " + text.Thousands(j.Planned) + " found so far"
	}
	return said
}

// tenths says how much is done, in tenths: who hears it is not to be told of each change.
func tenths(j Job) string {
	if j.Percent == nil {
		return ""
	}
	return fmt.Sprintf("%d%%", *j.Percent/10*10)
}

func (v *jobView) notices(j Job, now time.Time) {
	add := func(class, title, text string) {
		if text != "" {
			v.Notices = append(v.Notices, notice{class, title, text})
		}
	}
	if j.Trouble != "" {
		age := ""
		if !j.AsOf.IsZero() {
			age = " They are of " + ago(j.AsOf, now) + "."
		}
		add("warn", "Silent", j.Trouble+age)
	} else if !j.AsOf.IsZero() {
		add("warn", "Partly silent", fmt.Sprintf("%s has not answered; its numbers are of %s.", text.Count(len(j.Silent), "workflow"), ago(j.AsOf, now)))
	}
	if e := j.Error; e != nil {
		add("bad", cmp.Or(e.Type, "Error"), e.Message)
	}
	if j.State == job.Stopped || j.State == job.Stopping {
		add("warn", "Reason", j.Reason)
	}
	if j.PausedSince != nil {
		add("warn", "Paused", "Nothing new has begun since "+at(*j.PausedSince).People+" ("+ago(*j.PausedSince, now)+").")
	}
	if o := j.Outage; o != nil {
		add("warn", "Waiting", o.String())
	}
	if j.Unserved {
		add("warn", "No worker", "No worker serves pool "+j.Pool+": the job goes on once one does.")
	}
	for _, pool := range j.UnservedPools {
		add("warn", "No worker", "No worker serves pool "+pool+": its items wait.")
	}
	if t := j.Throttle; t != nil && !j.State.Final() {
		add("warn", "Slowed down", "The handler has asked for it: "+t.String()+". It recovers automatically.")
	}
	if j.OnlySums() {
		add("warn", "Sums", "Calls of several items get one result: the handler seems to sum its items up.")
	}
	for _, e := range j.LaterErrors {
		add("warn", cmp.Or(e.Type, "Later error"), e.Message)
	}
	for _, h := range j.Hooks {
		switch {
		case h.Skipped != "":
			add("warn", h.Stage+" hook "+h.Hook, "not run, because "+h.Skipped)
		case h.Error != nil:
			add("bad", h.Stage+" hook "+h.Hook, h.Error.Message)
		}
	}
	if !j.State.Final() && j.LastFailure != "" {
		add("note", "Last retry", j.LastFailure)
	}
	for _, s := range j.Stragglers {
		add("warn", "Still running", s.String())
	}
	for _, note := range j.Noticed.Notes {
		add("note", "Note", note)
	}
}

func (v *jobView) tiles(j Job, now time.Time) {
	add := func(name, value, more, class string) {
		if value != "" {
			v.Tiles = append(v.Tiles, tile{Name: name, Value: value, More: more, Class: class})
		}
	}
	if j.Percent != nil {
		add("Done", fmt.Sprintf("%d%%", *j.Percent), headline(j), "")
	} else {
		add("Done", text.Thousands(j.Done()), headline(j), "")
	}
	rate, more := "Rate", ""
	if j.State.Final() {
		rate = "Average rate"
	} else if average := j.Speed(now); average.Items > 0 {
		more = perSecond(average.Items) + " on average"
	}
	add(rate, perSecond(j.ItemsPerSecond), more, "")
	switch {
	case j.State.Final():
		add("Took", v.Took, "", "")
	case j.SecondsLeft != nil:
		add("Time left", span(seconds(j.SecondsLeft)), "until about", "")
		v.Tiles[len(v.Tiles)-1].At = at(now.Add(seconds(j.SecondsLeft)))
	default:
		add("Running for", v.Took, "", "")
	}
	class := ""
	if j.Failed > 0 {
		class = "bad"
	}
	share := ""
	if j.Failed > 0 && j.Done() > 0 {
		share = percentage(float64(j.Failed)/float64(j.Done())) + " of those done"
	}
	add("Failed", text.Thousands(j.Failed), share, class)
	if j.CallTimes != "" {
		add("Calls", span(j.CallTimes.Percentile(50)), fmt.Sprintf("p95 %s, max %s, %s", span(j.CallTimes.Percentile(95)), span(j.CallTimes.Longest()), text.Count(j.Calls, "call")), "")
	}
	if spent := j.Spent(); spent.Cost > 0 {
		add("Cost", spent.Cost.String(), text.Thousands(spent.Tokens())+" tokens", "")
	} else if spent.Tokens() > 0 {
		add("Tokens", text.Thousands(spent.Tokens()), "", "")
	}
	switch {
	case j.Mixed() > 0:
		add("Versions", fmt.Sprint(len(j.Versions)), "of the handler: "+j.DescribeVersions(), "")
	case j.Pinned != "":
		add("Pinned", j.Pinned, "the version of the handler", "")
	}
	if trouble := j.Retries + j.Crashes + j.Expiries; trouble > 0 {
		add("Trouble", text.Thousands(trouble), fmt.Sprintf("%s, %s, %s", text.Count(j.Retries, "retry"), text.Count(j.Crashes, "crash"), text.Count(j.Expiries, "expiry")), "")
	}
}

// inFlight returns about how many items are in batches that run, without those that these have done.
func inFlight(j Job) int64 {
	items := int64(0)
	for _, b := range j.Running {
		items += b.Count
	}
	if items == 0 && j.Batches > 0 {
		items = int64(j.InFlight) * (j.Done() - j.Resumed) / j.Batches
	}
	return max(0, min(items-j.InHand, j.Planned-j.Done()-j.Discarded))
}

// whole fills in the bar of all items.
func (v *jobView) whole(j Job) {
	reused := j.Reused
	ok := j.OK - reused
	flying := inFlight(j)
	waiting := max(0, j.Planned-j.Done()-j.Discarded-flying)
	known := float64(j.Done() + flying + waiting)
	whole := known
	if !j.PlanDone && j.TotalBytes > 0 && j.InputBytes > 0 && j.Done() > 0 { // what is not planned yet, by bytes
		whole = max(known, float64(j.Done())*float64(j.TotalBytes)/float64(j.InputBytes))
	}
	parts := []part{
		{"ok", "ok", text.Thousands(ok), float64(ok)}, {"reused", "reused", text.Thousands(reused), float64(reused)},
		{"failed", "failed", text.Thousands(j.Failed), float64(j.Failed)}, {"flight", "in flight", "about " + text.Thousands(flying), float64(flying)},
		{"waiting", "waiting", text.Thousands(waiting), float64(waiting)},
	}
	label := ""
	for _, p := range parts {
		if p.size == 0 && (p.class == "reused" || (j.State.Final() || j.Loop != nil) && p.class != "ok" && p.class != "failed") {
			continue
		}
		v.Counts = append(v.Counts, count{p.class, p.name, p.words})
		label += p.words + " " + p.name + ", "
	}
	if j.Dropped > 0 {
		v.Counts = append(v.Counts, count{"", "of the ok ones dropped", text.Thousands(j.Dropped)})
	}
	if j.Skipped > 0 {
		v.Counts = append(v.Counts, count{"", "of the ok ones skipped", text.Thousands(j.Skipped)})
	}
	if whole == 0 && j.State.Final() {
		whole = 1
	}
	if j.Loop != nil { // it has no end
		whole = known
	}
	v.Whole = newBar(label+"of the job's items", whole, parts)
}

// groups fills in the failures.
func (p *Page) groups(v *jobView, j Job) {
	found := j.examples
	most := int64(1)
	for _, g := range found.Groups {
		most = max(most, g.Count)
	}
	for _, g := range found.Groups {
		one := groupView{
			Count: text.Thousands(g.Count), Message: g.Message, Pattern: g.Pattern, Stage: g.Stage, Where: string(g.Where),
			Label: cmp.Or(g.Kind, "others"), Share: newBar("", float64(most), []part{{class: "failed", size: float64(g.Count)}}),
			May: redrives(j.Report),
		}
		if g.Type != "" {
			one.Label += " · " + g.Type
		}
		if g.Where != "" {
			one.Command = p.command("redrive", j.Report.Job, "--where", string(g.Where))
		}
		for _, e := range g.Examples {
			one.Examples = append(one.Examples, exampleView{
				Item: text.Thousands(e.Item), Source: e.Source, Input: e.Input, Label: cmp.Or(e.Error.Type, g.Kind), Message: e.Error.Message, Stack: e.Error.Stack,
				Attempts: text.Count(e.Attempts, "attempt"),
			})
		}
		v.Failures = append(v.Failures, one)
	}
	shown := int64(0)
	for _, g := range found.Groups {
		shown += g.Count
	}
	switch {
	case found.Trouble != "":
		v.FailuresNote = "Examples could not be read: " + found.Trouble
	case found.Partial:
		v.FailuresNote = "These are groups of the first failures; there are more."
	case len(found.Groups) == 0 && j.Failed > 0:
		v.FailuresNote = "No error record can be read from here yet: '" + p.command("errors", j.Report.Job) + "' shows what has been committed."
	case shown < j.Failed:
		v.FailuresNote = fmt.Sprintf("%s of %s are shown: those that had been committed some seconds ago.", text.Thousands(shown), text.Thousands(j.Failed))
	}
}

func (v *jobView) slots(j Job, now time.Time) {
	running := slices.Clone(j.Running)
	v.SlotsMore = max(0, len(running)-shownSlots)
	oldest := time.Duration(1)
	if len(running) > 0 {
		oldest = max(1, now.Sub(running[0].Since))
	}
	median := oldest
	if len(running) > 1 {
		median = now.Sub(running[len(running)/2].Since)
	}
	for _, b := range running[:min(len(running), shownSlots)] {
		took := now.Sub(b.Since)
		v.Slots = append(v.Slots, newSlotRow(b, now, took > 5*time.Second && took > 3*median, oldest))
	}
}

func newSlotRow(b jobs.RunningBatch, now time.Time, slow bool, oldest time.Duration) slotRow {
	row := slotRow{
		Worker: cmp.Or(b.Worker, "–"), Batch: cmp.Or(b.Batch, "a batch"), For: span(now.Sub(b.Since)), Pool: b.Pool, Slow: slow, Slot: "–", Heard: "not yet",
		Share: newBar("", float64(oldest), []part{{class: "flight", size: float64(now.Sub(b.Since))}}),
	}
	if !b.Beat.IsZero() {
		row.Slot, row.Heard = fmt.Sprint(b.Slot), ago(b.Beat, now)
		row.Calls = text.Count(max(1, b.Concurrency), "call")
	}
	for _, t := range b.Timers {
		if left := t.Deadline.Sub(now); left >= 0 {
			row.Timers = append(row.Timers, t.Scope+" in "+span(left))
		} else {
			row.Timers = append(row.Timers, t.Scope+" overdue by "+span(-left))
		}
	}
	return row
}

func (v *jobView) shares(j Job, now time.Time) {
	most := int64(1)
	for _, w := range j.Workers {
		most = max(most, w.Items)
	}
	for _, w := range j.Workers[:min(len(j.Workers), shownShares)] {
		v.Shares = append(v.Shares, shareRow{
			Worker: w.Worker, Items: text.Thousands(w.Items), Batches: text.Thousands(w.Batches), Busy: span(w.Busy), Last: ago(w.Last, now),
			Bar: newBar("", float64(most), []part{{class: "ok", size: float64(w.Items)}}),
		})
	}
}

// settingsOf are the settings with which a job runs.
func settingsOf(j Job) [][2]string {
	rows := SettingRows(j.Settings)
	for i := range rows {
		if rows[i][0] == "window" && j.Settings.Window != nil {
			rows[i][1] = limits.DescribeWindow(*j.Settings.Window, j.Window)
		}
	}
	if j.Attempts == 0 {
		return rows // it has not answered
	}
	return append(rows, [2]string{"grace", span(j.Grace)}, [2]string{"expiry", span(j.Expiry)}, [2]string{"attempts", fmt.Sprint(j.Attempts)})
}

// factsOf are all else that there is to say of a job.
func factsOf(j Job) []fact {
	var facts []fact
	add := func(name, value string, toCopy bool) {
		if value != "" && value != "0" {
			facts = append(facts, fact{name, value, toCopy})
		}
	}
	if spec := j.spec; spec != nil {
		add("inputs", list(spec.Inputs(), 5), false)
	}
	if o := j.Output; o != nil {
		add("output", o.Location, true)
		add("size", size(o.Bytes), false)
		add("errors file", o.Errors, true)
		add("dropped items", o.Dropped, true)
		add("checksum", o.Checksum, false)
	}
	if j.TotalBytes > 0 {
		add("input read", size(j.InputBytes)+" of "+size(j.TotalBytes), false)
	}
	add("batches", fmt.Sprintf("%s done, %d in flight, %d waiting", text.Thousands(j.Batches), j.InFlight, j.Waiting), false)
	if j.Calls > 0 {
		add("items of a call", fmt.Sprintf("%s to %s, %s on average", text.Thousands(j.CallMin), text.Thousands(j.CallMax), text.Thousands(j.CallItems/j.Calls)), false)
	}
	add("legs", fmt.Sprint(j.Legs), false)
	add("isolations", fmt.Sprint(j.Isolations), false)
	add("slow-downs", fmt.Sprint(j.SlowDowns), false)
	if j.ReusedFrom != "" {
		add("reused from", j.ReusedFrom, false)
	}
	add("done by earlier runs", text.Thousands(j.Resumed), false)
	add("run again by redrive", text.Thousands(j.Redriven), false)
	add("repeated items", text.Thousands(j.Repeated), false)
	add("result lines", text.Thousands(j.Lines), false)
	add("paused before", plainSpan(j.PausedFor), false)
	add("run", j.Run, true)
	add("store", j.Store, true)
	return facts
}

func plainSpan(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return span(d)
}

// list names some of many.
func list(names []string, most int) string {
	said := ""
	for i, name := range names[:min(len(names), most)] {
		if i > 0 {
			said += ", "
		}
		said += name
	}
	if more := len(names) - most; more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	return said
}
