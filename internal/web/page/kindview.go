package page

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

func pathEscape(name string) string { return url.PathEscape(name) }

// kindFacts are what only feeds, or only loops, have.
func kindFacts(j Job, now time.Time) []factGroup {
	switch {
	case j.Feed != nil:
		return []factGroup{feedFacts(j.Report, j.Feed, now)}
	case j.Loop != nil:
		return []factGroup{loopFacts(j.Report, j.Loop)}
	}
	return nil
}

func feedFacts(r job.Report, f *job.FeedReport, now time.Time) factGroup {
	g := factGroup{Title: "Feed"}
	add := func(name, value string) { g.Facts = append(g.Facts, fact{Name: name, Value: value}) }
	add("accepted", text.Thousands(f.Accepted))
	add("session", fmt.Sprint(f.Session))
	if !r.State.Final() {
		g.Gauge = &gauge{
			Name:  "Places taken",
			Words: fmt.Sprintf("%s of %s items, %s of %s", text.Thousands(int64(f.Backlog)), text.Thousands(int64(f.Capacity)), size(f.BacklogBytes), size(f.CapacityBytes)),
		}
		g.Gauge.Bar = newBar(g.Gauge.Words, float64(max(1, f.Capacity)), []part{
			{class: "flight", size: float64(f.Backlog - f.Waiting)}, {class: "waiting", size: float64(f.Waiting)},
		})
		add("backlog", text.Thousands(int64(f.Backlog)))
		add("waiting for a batch", text.Thousands(int64(f.Waiting)))
		add("capacity", text.Thousands(int64(f.Capacity)))
		add("time in queue", fmt.Sprintf("%s on average, %s at most", span(f.QueueMean), span(f.QueueMax)))
		if !f.OldestSince.IsZero() {
			add("oldest item accepted", ago(f.OldestSince, now))
		}
		if !f.StalledSince.IsZero() {
			add("stalled: none has finished for", span(now.Sub(f.StalledSince)))
		}
		add("results not taken", text.Thousands(int64(f.Unclaimed)))
	}
	if r.Batches > 0 {
		add("items of a batch", text.Rate(float64(r.Done()-r.Resumed)/float64(r.Batches))+" on average")
	}
	if r.Discarded > 0 {
		add("discarded by resets", text.Thousands(r.Discarded))
	}
	if f.Lost > 0 {
		add("lost", text.Thousands(f.Lost))
	}
	return g
}

func loopFacts(r job.Report, l *job.LoopReport) factGroup {
	g := factGroup{Title: "Loop"}
	add := func(name, value string) { g.Facts = append(g.Facts, fact{Name: name, Value: value}) }
	add("ticks", text.Thousands(l.Ticks))
	pace := "back to back"
	if l.Every > 0 {
		pace = "every " + span(l.Every)
	}
	add("pace", pace)
	if r.State.Final() {
		add("slots", fmt.Sprint(l.Slots))
	} else {
		add("slots", fmt.Sprintf("%d of %d run", l.Running, l.Slots))
		g.Gauge = &gauge{Name: "Slots that run", Words: fmt.Sprintf("%d of %d", l.Running, l.Slots)}
		g.Gauge.Bar = newBar(g.Gauge.Words, float64(max(1, l.Slots)), []part{{class: "ok", size: float64(l.Running)}, {class: "waiting", size: float64(l.Idle)}})
	}
	if l.Every > 0 {
		add("late, at the median", span(l.LateMedian))
		add("late, on average", span(l.LateMean))
		add("late, at most", span(l.LateMax))
		add("missed and made up", text.Thousands(l.Missed))
		add("skipped", text.Thousands(l.Skipped))
	}
	if l.Repeated > 0 {
		add("repeated", text.Thousands(l.Repeated))
	}
	return g
}

// usageGauges show what is used of services that are paid for, against the job's limits.
func usageGauges(j Job) []gauge {
	spent := j.Spent()
	if spent.IsZero() {
		return nil
	}
	var all []gauge
	add := func(name, used, limit string, share float64) {
		g := gauge{Name: name, Words: used}
		if limit != "" {
			g.Words += " of " + limit
			class := "ok"
			if share > 0.9 {
				class = "failed"
			}
			g.Bar = newBar(g.Words, 1, []part{{class: class, size: min(1, share)}})
		}
		all = append(all, g)
	}
	if spent.Cost > 0 || set(j.Settings.MaxCost) {
		limit, share := "", 0.0
		if set(j.Settings.MaxCost) {
			limit, share = j.Settings.MaxCost.String(), float64(spent.Cost)/float64(*j.Settings.MaxCost)
		}
		add("Cost", spent.Cost.String(), limit, share)
	}
	if spent.Tokens() > 0 || set(j.Settings.MaxTokens) {
		limit, share := "", 0.0
		if set(j.Settings.MaxTokens) {
			limit, share = text.Thousands(*j.Settings.MaxTokens), float64(spent.Tokens())/float64(*j.Settings.MaxTokens)
		}
		add("Tokens", text.Thousands(spent.Tokens()), limit, share)
		all = append(all, gauge{Name: "of them", Words: fmt.Sprintf("%s in (%s cached), %s out", text.Thousands(spent.TokensIn), text.Thousands(spent.TokensCached), text.Thousands(spent.TokensOut))})
	}
	if !j.LostUsage.IsZero() {
		all = append(all, gauge{Name: "for nothing", Words: j.LostUsage.String() + ", by batches that were lost with their worker"})
	}
	return all
}

// set reports whether a limit is set.
func set[N ~int64](limit *N) bool { return limit != nil && *limit > 0 }

// SettingRows returns the names and values of settings, as people read them.
func SettingRows(s job.Settings) [][2]string {
	var rows [][2]string
	add := func(name, value string) { rows = append(rows, [2]string{name, value}) }
	if s.Window != nil {
		add("window", limits.DescribeWindow(*s.Window, 0))
	}
	if s.BatchItems != nil {
		value := fmt.Sprint(*s.BatchItems)
		if *s.BatchItems == 0 {
			value = "automatic"
		}
		add("batch-items", value)
	}
	if s.MaxFailed != nil {
		value := string(*s.MaxFailed)
		if s.MaxFailed.Unlimited() {
			value = "none"
		}
		add("max-failed", value)
	}
	if s.Rate != nil {
		add("rate", s.Rate.String())
	}
	for _, limit := range []struct {
		name string
		rate *job.Rate
	}{{"rpm", s.RequestRate}, {"tpm", s.TokenRate}} {
		if set(limit.rate) {
			add(limit.name, limit.rate.String())
		}
	}
	if set(s.MaxCost) {
		add("max-cost", s.MaxCost.String())
	}
	if set(s.MaxTokens) {
		add("max-tokens", text.Thousands(*s.MaxTokens))
	}
	if s.Priority != nil && *s.Priority != 0 && *s.Priority != limits.DefaultPriority {
		add("priority", fmt.Sprint(*s.Priority))
	}
	if s.Deadline != nil && *s.Deadline != "" {
		add("deadline", *s.Deadline)
	}
	for _, stage := range slices.Sorted(maps.Keys(s.Windows)) {
		add(stage+".window", limits.DescribeWindow(s.Windows[stage], 0))
	}
	return rows
}
