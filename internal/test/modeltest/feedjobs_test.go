package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/stages/stagestest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// feedJob is one schedule of a feed with its legs: clients put items, take results, reset sessions, and close it in the
// end.
type feedJob struct {
	*jobSimulation
	items   []fedItem // that the feed has accepted, by their ordinals
	made    int
	lists   int // still to be put
	session int64
	wrong   error // what a client has seen that must not be
}

type fedItem struct {
	text    string
	session int64
	told    string // what the client was told of it: ok, failed or discarded; empty: nothing
}

// TestModel_FeedJobs runs 700 schedules of feeds with their legs (15 with -short), the same ones each time: see
// [TestModel].
func TestModel_FeedJobs(t *testing.T) {
	t.Parallel()
	runAll(t, 0.07, 700, 15, 7, func(c *choices) (log []string, err error) {
		spec := withSizes(c, job.Spec{Feed: &job.Feed{Capacity: 4 + c.pick(30, 70)}, Format: "text"})
		f := newFeedJob(c, spec)
		f.poison = f.pick(4, 30) == 1
		return f.schedule()
	})
}

// TestModel_FeedJobStages runs 300 schedules of feeds with random pipelines (10 with -short), the same ones each time:
// see [TestModel].
func TestModel_FeedJobStages(t *testing.T) {
	t.Parallel()
	runAll(t, 0.03, 300, 10, 8, func(c *choices) (log []string, err error) {
		f := newFeedJob(c, withSizes(c, job.Spec{Feed: &job.Feed{Capacity: 4 + c.pick(30, 70)}, Format: "jsonl", Stages: stagestest.Stages(evenly{c}, 6)}))
		f.begin()
		f.staged.calm = f.staged.calm && !f.staged.deadly
		return f.schedule()
	})
}

func newFeedJob(c *choices, spec job.Spec) *feedJob {
	f := &feedJob{jobSimulation: &jobSimulation{simulation: newFeed(c, spec).simulation}, session: 1, lists: 1 + c.pick(12, 80)}
	f.pages = 2 + f.pick(5, 50)
	f.jobSimulation.clients = f.clients
	return f
}

// schedule runs the feed, and its redrives.
func (f *feedJob) schedule() (log []string, err error) {
	f.processes = []*process{f.newProcess(), f.newProcess()}
	defer func() {
		f.close()
		log = f.log
	}()
	for {
		if err := f.complete(); errors.Is(err, errHopeless) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		if err := f.verify(); err != nil {
			return nil, err
		}
		if f.pick(2, 50) == 0 || f.report.Failed == 0 || f.generation == 2 {
			break
		}
		f.generation++
		f.note("redrive")
		f.redrive = &job.Redrive{Manifests: f.report.Manifests, Output: *f.report.Output, Planned: f.report.Planned, Runs: []string{f.report.Run}}
	}
	f.settle()
	if err := f.verify(); err != nil {
		return nil, fmt.Errorf("after all has ended: %w", err)
	}
	return nil, nil
}

// clients are those of one run: two that put items and take results, and one that closes the feed once all have been
// put.
func (f *feedJob) clients(ctx workflow.Context, v *server) {
	for i := range 2 {
		name := fmt.Sprintf("client-%s-%d", v.ref.Run, i)
		workflow.Go(ctx, func(ctx workflow.Context) { f.client(ctx, v, name) })
	}
	for !v.over {
		v.pause(ctx)
		of := v.flows[v.spec.Name]
		if f.lists == 0 && of.updates[wire.UpdateClose].handler != nil {
			v.note("the feed is closed")
			_ = of.updates[wire.UpdateClose].handler.(func(workflow.Context) error)(workflow.WithValue(ctx, flowKey{}, of))
			return
		}
	}
}

func (f *feedJob) client(ctx workflow.Context, v *server, name string) {
	for pending := 0; !v.over; {
		v.pause(ctx)
		leg := v.flows[wire.LegID(v.spec.Name, v.open)]
		if leg == nil || leg.ended || leg.updates[wire.UpdateReset].handler == nil {
			continue
		}
		if f.pick(30, 3) == 1 {
			f.reset(ctx, leg)
			continue
		}
		x := wire.Exchange{Client: name, Wait: pauses[f.pick(len(pauses), 50)]}
		switch {
		case f.lists > 0:
			x.Want = f.pick(3, 60) > 0
			for range 1 + f.pick(4, 70) {
				f.made++
				x.Items = append(x.Items, f.madeItem())
			}
			f.lists--
		case pending == 0:
			return
		}
		a, err := f.exchange(ctx, leg, x)
		if err != nil {
			if f.refused(err) && len(x.Items) > 0 {
				f.lists++ // others instead
			}
			continue
		}
		pending = a.Pending
		f.take(a)
	}
}

func (f *feedJob) madeItem() json.RawMessage {
	if f.staged != nil {
		return json.RawMessage(fmt.Sprintf(`{"i":"f-%d","k":%q}`, f.made, stagestest.Kinds[f.made%len(stagestest.Kinds)]))
	}
	return json.RawMessage(fmt.Sprintf("%q", fmt.Sprint("f-", f.made)))
}

// refused reports whether an exchange was refused: it has left no trace.
func (f *feedJob) refused(err error) bool {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return true
	}
	f.fail("an exchange fails: %v", err)
	return false
}

func (f *feedJob) fail(format string, args ...any) {
	if f.wrong == nil {
		f.wrong = fmt.Errorf(format, args...)
	}
}

// exchange is one exchange with a leg. What the leg accepts is accepted, whatever becomes of the answer.
func (f *feedJob) exchange(ctx workflow.Context, leg *simFlow, x wire.Exchange) (a wire.Exchanged, err error) {
	ctx = workflow.WithValue(ctx, flowKey{}, leg)
	u := leg.updates[wire.UpdateExchange]
	if x, err = passed(x); err != nil {
		return a, err
	}
	if err := u.validator.(func(wire.Exchange) error)(x); err != nil {
		return a, err
	}
	state, err := leg.queries[wire.QueryFeed].(func() (job.FeedState, error))()
	if err != nil {
		return a, err
	}
	if len(x.Items) > 0 && state.Accepted != int64(len(f.items)) {
		f.fail("the feed has accepted %d items, and gives the next one the ordinal %d", len(f.items), state.Accepted)
	}
	for _, item := range x.Items {
		text := string(item)
		if f.staged == nil {
			if err := json.Unmarshal(item, &text); err != nil {
				return a, err
			}
		}
		f.items = append(f.items, fedItem{text: text, session: state.Session})
	}
	a, err = u.handler.(func(workflow.Context, wire.Exchange) (wire.Exchanged, error))(ctx, x)
	if err == nil && len(x.Items) > 0 && a.First != state.Accepted {
		f.fail("the first of %d items has the ordinal %d, and should have %d", len(x.Items), a.First, state.Accepted)
	}
	if err != nil {
		return a, err
	}
	return passed(a)
}

func (f *feedJob) reset(ctx workflow.Context, leg *simFlow) {
	ctx = workflow.WithValue(ctx, flowKey{}, leg)
	u := leg.updates[wire.UpdateReset]
	if u.validator.(func(wire.Reset) error)(wire.Reset{}) != nil {
		return
	}
	done, err := u.handler.(func(workflow.Context, wire.Reset) (wire.ResetDone, error))(ctx, wire.Reset{})
	if err != nil {
		f.fail("a reset fails: %v", err)
		return
	}
	f.note("session %d begins", done.Session)
	f.session = max(f.session, done.Session)
}

// take takes the results of an answer.
func (f *feedJob) take(a wire.Exchanged) {
	for _, r := range a.Results {
		if r.Item < 0 || r.Item >= int64(len(f.items)) {
			f.fail("a result of item %d, of %d", r.Item, len(f.items))
			return
		}
		item := &f.items[r.Item]
		told := "ok"
		switch {
		case r.Discarded:
			told = "discarded"
		case r.Stored:
			continue // it says nothing
		case r.Failure != nil:
			told = "failed"
		case r.Dropped:
			told = "dropped"
		case f.staged != nil:
		case string(r.Result) != item.text && string(r.Result) != fmt.Sprintf("%q", item.text):
			f.fail("the result of item %d is %q, and should be %q", r.Item, r.Result, item.text)
		}
		if item.told != "" {
			f.fail("item %d has two results: %s and %s", r.Item, item.told, told)
		}
		item.told = told
	}
}

// verify compares what is published, what clients were told, and the report with the model.
func (f *feedJob) verify() error {
	switch {
	case f.wrong != nil:
		return f.wrong
	case f.lostItems > 0:
		return fmt.Errorf("%d items are lost", f.lostItems)
	}
	got, err := f.published()
	if err != nil {
		return err
	}
	var ok, failed, absent, dropped int64
	for i, item := range f.items {
		value, bad := f.outcome(i)
		as := "ok"
		switch {
		case bad && got.failed[int64(i)]:
			as = "failed"
			failed++
		case !bad && value != "" && len(got.lines) > 0 && got.lines[0] == value:
			got.lines = got.lines[1:]
			ok++
		case !bad && value == "" && item.session == f.session:
			as = "dropped"
			absent++
			dropped++
		case !bad && value == "", item.session < f.session:
			as = "discarded" // or dropped
			absent++
		default:
			return fmt.Errorf("item %d, %s, of session %d should have come to %q; failed: %v; the output goes on with %q", i, item.text, item.session, value, bad, got.lines)
		}
		// A client is told nothing else of items of sessions that have ended; those that ran are recorded all the same.
		unknown := as == "discarded" && value == "" && !bad // it may have been dropped
		if item.told != "" && item.told != as && f.generation == 0 && !(item.told == "discarded" && item.session < f.session) && !unknown {
			return fmt.Errorf("item %d, %s, has come to %q, and its client was told %q", i, item.text, as, item.told)
		}
	}
	if len(got.lines) > 0 || int64(len(got.failed)) != failed {
		return fmt.Errorf("there are results of other items: %+v", got)
	}
	r, books := f.report, f.finished.Books
	if books.OK != ok+books.Dropped || books.Failed != failed || books.Discarded+books.Dropped != absent || books.Dropped < dropped ||
		books.Items != int64(len(f.items)) || r.OK != books.OK || r.Failed != failed || r.Planned != int64(len(f.items)) {
		return fmt.Errorf("%d items, %d ok, %d failed, %d neither: the books are %+v, the report counts %d, %d and %d, and %d discarded",
			len(f.items), ok, failed, absent, books, r.Planned, r.OK, r.Failed, r.Discarded)
	}
	return nil
}

// outcome is what an item must come to, unless it is discarded: a line of the output, none if it is dropped, or a
// failure.
func (f *feedJob) outcome(i int) (value string, failed bool) {
	item := f.items[i]
	if f.staged == nil {
		return item.text, failing(item.text, f.generation) || f.poisonous(int64(i))
	}
	m := &stagestest.Model{Handler: f.staged.Handler, Stages: f.spec.Stages}
	e := f.item(m, int64(i), item.text)
	return e.Value, e.Failed()
}

// outcomes are those in the files: the lines of the output, and which items have failed.
type outcomes struct {
	lines  []string
	failed map[int64]bool
}

// published reads the output and the errors file.
func (f *feedJob) published() (outcomes, error) {
	got := outcomes{failed: map[int64]bool{}}
	output, _ := f.get("/out.txt")
	for line := range strings.Lines(stagestest.Plain(string(output.data))) {
		got.lines = append(got.lines, strings.TrimSuffix(line, "\n"))
	}
	last := int64(-1)
	failures, _ := f.get("/out.txt.errors.jsonl")
	for line := range bytes.Lines(failures.data) {
		var record job.Failure
		if err := json.Unmarshal(line, &record); err != nil {
			return got, err
		}
		var text string
		if f.staged != nil {
			text = string(record.Input)
		} else if err := json.Unmarshal(record.Input, &text); err != nil {
			return got, fmt.Errorf("the input of %s: %w", line, err)
		}
		if record.Item <= last || record.Item >= int64(len(f.items)) || f.items[record.Item].text != text {
			return got, fmt.Errorf("after item %d there is the failure of %s, as item %d of %d", last, text, record.Item, len(f.items))
		}
		last = record.Item
		got.failed[last] = true
	}
	return got, nil
}
