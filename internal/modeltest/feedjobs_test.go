package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// feedJob is one schedule of a feed with its legs: clients put items, take results, reset sessions, and close it in the end.
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

// TestModel_FeedJobs runs 1,500 schedules of feeds with their legs (100 with -short), the same ones each time: see [TestModel].
func TestModel_FeedJobs(t *testing.T) {
	t.Parallel()
	runAll(t, 1_500, 100, 7, func(c *choices) (log []string, err error) {
		spec := withSizes(c, job.Spec{Source: job.SourceFeed, Format: "text", Capacity: 4 + c.pick(30, 70)})
		f := &feedJob{jobSimulation: &jobSimulation{simulation: newFeed(c, spec).simulation}, session: 1, lists: 1 + c.pick(12, 80)}
		f.poison, f.pages = f.pick(4, 30) == 1, 2+f.pick(5, 50)
		f.jobSimulation.clients = f.clients
		return f.schedule()
	})
}

// schedule runs the feed, and its redrives.
func (f *feedJob) schedule() (log []string, err error) {
	f.processes = []*process{f.newProcess(), f.newProcess()}
	defer func() {
		f.settle()
		for _, p := range f.processes {
			acts(p).Close()
		}
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

// clients are those of one run: two that put items and take results, and one that closes the feed once all have been put.
func (f *feedJob) clients(ctx workflow.Context, v *server) {
	for i := range 2 {
		name := fmt.Sprintf("client-%s-%d", v.ref.Run, i)
		workflow.Go(ctx, func(ctx workflow.Context) { f.client(ctx, v, name) })
	}
	for !v.over {
		v.pause(ctx)
		of := v.flows[v.spec.Name]
		if f.lists == 0 && of.updates[protocol.UpdateClose].handler != nil {
			v.note("the feed is closed")
			_ = of.updates[protocol.UpdateClose].handler.(func(workflow.Context) error)(workflow.WithValue(ctx, flowKey{}, of))
			return
		}
	}
}

func (f *feedJob) client(ctx workflow.Context, v *server, name string) {
	for pending := 0; !v.over; {
		v.pause(ctx)
		leg := v.flows[protocol.LegID(v.spec.Name, v.open)]
		if leg == nil || leg.ended || leg.updates[protocol.UpdateReset].handler == nil {
			continue
		}
		if f.pick(30, 3) == 1 {
			f.reset(ctx, leg)
			continue
		}
		x := protocol.Exchange{Client: name, Wait: pauses[f.pick(len(pauses), 50)]}
		switch {
		case f.lists > 0:
			x.Want = f.pick(3, 60) > 0
			for range 1 + f.pick(4, 70) {
				f.made++
				x.Items = append(x.Items, json.RawMessage(fmt.Sprintf("%q", fmt.Sprint("f-", f.made))))
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
func (f *feedJob) exchange(ctx workflow.Context, leg *simFlow, x protocol.Exchange) (a protocol.Exchanged, err error) {
	ctx = workflow.WithValue(ctx, flowKey{}, leg)
	u := leg.updates[protocol.UpdateExchange]
	if x, err = passed(x); err != nil {
		return a, err
	}
	if err := u.validator.(func(protocol.Exchange) error)(x); err != nil {
		return a, err
	}
	state, err := leg.queries[protocol.QueryFeed].(func() (protocol.FeedState, error))()
	if err != nil {
		return a, err
	}
	if len(x.Items) > 0 && state.Accepted != int64(len(f.items)) {
		f.fail("the feed has accepted %d items, and gives the next one the ordinal %d", len(f.items), state.Accepted)
	}
	for _, item := range x.Items {
		var text string
		if err := json.Unmarshal(item, &text); err != nil {
			return a, err
		}
		f.items = append(f.items, fedItem{text: text, session: state.Session})
	}
	a, err = u.handler.(func(workflow.Context, protocol.Exchange) (protocol.Exchanged, error))(ctx, x)
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
	u := leg.updates[protocol.UpdateReset]
	if u.validator.(func(protocol.Reset) error)(protocol.Reset{}) != nil {
		return
	}
	done, err := u.handler.(func(workflow.Context, protocol.Reset) (protocol.ResetDone, error))(ctx, protocol.Reset{})
	if err != nil {
		f.fail("a reset fails: %v", err)
		return
	}
	f.note("session %d begins", done.Session)
	f.session = max(f.session, done.Session)
}

// take takes the results of an answer.
func (f *feedJob) take(a protocol.Exchanged) {
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
	done, err := f.published()
	if err != nil {
		return err
	}
	var ok, failed, discarded int64
	for i, item := range f.items {
		bad := failing(item.text, f.generation) || f.poisonous(int64(i))
		got := done[item.text]
		delete(done, item.text)
		switch {
		case got == "ok" && !bad:
			ok++
		case got == "failed" && bad:
			failed++
		case got == "" && item.session < f.session:
			got = "discarded"
			discarded++
		default:
			return fmt.Errorf("item %d, %s, of session %d has come to %q", i, item.text, item.session, got)
		}
		// A client is told nothing else of items of sessions that have ended; those that ran are recorded all the same.
		if item.told != "" && item.told != got && f.generation == 0 && !(item.told == "discarded" && item.session < f.session) {
			return fmt.Errorf("item %d, %s, has come to %q, and its client was told %q", i, item.text, got, item.told)
		}
	}
	if len(done) > 0 {
		return fmt.Errorf("there are results of other items: %v", done)
	}
	r, books := f.report, f.finished.Books
	if books.OK != ok || books.Failed != failed || books.Discarded != discarded || books.Items != int64(len(f.items)) ||
		r.OK != ok || r.Failed != failed || r.Planned != int64(len(f.items)) {
		return fmt.Errorf("%d items, %d ok, %d failed, %d discarded: the books are %+v, the report counts %d, %d and %d, and %d discarded",
			len(f.items), ok, failed, discarded, books, r.Planned, r.OK, r.Failed, r.Discarded)
	}
	return nil
}

// published is what the output and the errors file have, each in the order of the items.
func (f *feedJob) published() (map[string]string, error) {
	ordinal := map[string]int{}
	for i, item := range f.items {
		ordinal[item.text] = i
	}
	done, last := map[string]string{}, -1
	add := func(text, as string) error {
		at, there := ordinal[text]
		if !there || at <= last || done[text] != "" {
			return fmt.Errorf("%s has %q, item %d of %d, after item %d", as, text, at, len(f.items), last)
		}
		last, done[text] = at, as
		return nil
	}
	output, _ := f.get("/out.txt")
	for line := range strings.Lines(string(output.data)) {
		if err := add(strings.TrimSuffix(line, "\n"), "ok"); err != nil {
			return nil, err
		}
	}
	last = -1
	failures, _ := f.get("/out.txt.errors.jsonl")
	for line := range bytes.Lines(failures.data) {
		var record job.Failure
		if err := json.Unmarshal(line, &record); err != nil {
			return nil, err
		}
		var text string
		if err := json.Unmarshal(record.Input, &text); err != nil {
			return nil, fmt.Errorf("the input of %s: %w", line, err)
		}
		if err := add(text, "failed"); err != nil {
			return nil, err
		}
	}
	return done, nil
}
