package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/data/feeds"
	"github.com/stint-run/stint/internal/data/stages/stagestest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// feedSimulation is one schedule of a feed. Whoever is killed, the feed goes on: what its legs had accepted is in the
// workflow's history, and is committed later, or by the run that resumes it.
type feedSimulation struct {
	*simulation
	items     []string
	discarded map[int]bool
	heads     []string
	pending   wire.CommitFeedInput // what is accepted and not committed
	waiting   []int                // accepted items that have no outcome
	closed    bool
}

// TestModel_Feed runs 3,000 schedules of feeds (100 with -short), the same ones each time: see [TestModel].
func TestModel_Feed(t *testing.T) {
	t.Parallel()
	runAll(t, 0.3, 3_000, 100, 2, simulateFeed)
}

// asked has an activity done, and returns the result that the server has taken.
func asked[T any](s *simulation, name string, do func(ctx context.Context, a *activities.Activities) (T, error)) (taken T, err error) {
	err = s.activity(name, nil, func(ctx context.Context, a *activities.Activities) error {
		got, err := do(ctx, a)
		if e := ctx.Value(executionKey{}).(*execution); err == nil && !slices.Contains(s.gone, e) {
			taken = got
		}
		return err
	})
	return taken, err
}

func (f *feedSimulation) value(item int) json.RawMessage {
	if f.staged != nil {
		return json.RawMessage(f.items[item])
	}
	data, _ := json.Marshal(f.items[item]) // a string
	return data
}

// resume begins a run with what the runs before have left.
func (f *feedSimulation) resume() error {
	if err := f.commit(true); err != nil { // of the run before
		return err
	}
	f.newRun()
	var batches []wire.Batch
	in := wire.PlanFeedInput{Ref: f.ref, Spec: f.spec, Resume: f.heads, Batches: 2, Accepted: int64(len(f.items))}
	for {
		page, err := asked(f.simulation, "PlanFeed of "+f.ref.Run, func(ctx context.Context, a *activities.Activities) (wire.PlanFeedResult, error) {
			return a.PlanFeed(ctx, in)
		})
		if err != nil {
			return err
		}
		if page.Sources != "" {
			f.ref.Sources, in.Ref.Sources, f.closed = page.Sources, page.Sources, page.Closed
		}
		if page.Lost > 0 {
			return fmt.Errorf("%d items are lost", page.Lost)
		}
		found, err := wire.DecodePage(page.Page)
		if err != nil {
			return err
		}
		batches, in.From = append(batches, found...), page.Next
		if page.Done {
			break
		}
	}
	heads, err := f.do(batches, f.heads)
	if err == nil || errors.Is(err, errTerminated) {
		f.heads = heads
	}
	return err
}

func (f *feedSimulation) newItem(i int) string {
	if f.staged == nil {
		return fmt.Sprintf("f-%d", i)
	}
	return fmt.Sprintf(`{"i":"f-%d","k":%q}`, i, stagestest.Kinds[i%len(stagestest.Kinds)])
}

// round takes items, and runs, discards or leaves them.
func (f *feedSimulation) round() error {
	first, n := len(f.items), 1+f.pick(4, 70)
	for i := range n {
		f.items = append(f.items, f.newItem(first+i))
	}
	switch f.pick(4, 40) {
	case 1:
		f.note("a reset discards items %d to %d", first, first+n-1)
		f.pending.Discarded = append(f.pending.Discarded, wire.FeedRange{First: int64(first), Count: int64(n), Session: 1})
		for i := range n {
			f.discarded[first+i] = true
		}
	case 2:
		for i := range n {
			f.waiting = append(f.waiting, first+i)
		}
	default:
		return f.process(first, n)
	}
	return nil
}

func (f *feedSimulation) process(first, n int) error {
	b := wire.Batch{First: int64(first), Count: int64(n)}.Sealed()
	if f.staged != nil {
		return f.processStages(b)
	}
	in := wire.ProcessInput{Ref: f.ref, Batch: b, Format: "text", Calls: wire.CallLimits{Attempts: 1, ItemAttempts: 1, Backoff: time.Nanosecond}}
	for i := range n {
		in.Items = append(in.Items, f.value(first+i))
	}
	result, err := asked(f.simulation, "Process "+b.String(), func(ctx context.Context, a *activities.Activities) (wire.ProcessResult, error) {
		return a.Process(ctx, in)
	})
	if err != nil {
		return err
	}
	f.accept(result)
	return nil
}

func (f *feedSimulation) accept(r wire.ProcessResult) {
	r.Entry.Session = 1
	f.pending.Entries = append(f.pending.Entries, wire.FeedEntry{Entry: r.Entry, Inline: r.Inline})
}

// processStages takes a batch through the steps of a pipeline. What is between two of them if the feed is stopped
// begins again.
func (f *feedSimulation) processStages(b wire.Batch) error {
	f.staged.items = func(b wire.Batch) (items wire.Items) {
		for i := range b.Count {
			items = append(items, f.value(int(b.First+i)))
		}
		return items
	}
	defer func() { f.staged.items = nil }()
	for waiting := []wire.Batch{b}; len(waiting) > 0; {
		if f.bad(2, 3) == 1 {
			f.note("a stop while %d batches are between two stages", len(waiting))
			for _, b := range waiting {
				for i := range b.Count {
					f.waiting = append(f.waiting, int(b.First+i))
				}
			}
			return nil
		}
		i := f.pick(len(waiting), 60)
		b := waiting[i]
		waiting = slices.Delete(slices.Clone(waiting), i, i+1)
		r, err := f.step(b)
		if err != nil {
			return err
		}
		if r.Rest != nil {
			waiting = slices.Insert(waiting, 0, *r.Rest)
		}
		switch {
		case r.Entry.Count == 0:
		case r.Written == nil:
			f.accept(r)
		default:
			waiting = slices.Insert(waiting, 0, f.staged.program.Advance(b, r.Rest, f.ref.Run, *r.Written, r.Routed, r.Cuts)...)
		}
	}
	return nil
}

// commit commits what is accepted; with stopped what is not done, too.
func (f *feedSimulation) commit(stopped bool) error {
	in := f.pending
	if stopped {
		for _, item := range f.waiting {
			in.Unfinished = append(in.Unfinished, wire.FeedItems{First: int64(item), Items: []json.RawMessage{f.value(item)}, Session: 1})
		}
	}
	if len(in.Entries)+len(in.Discarded)+len(in.Unfinished) == 0 {
		return nil
	}
	in.Ref, in.Previous, in.Format = f.ref, f.heads, "text"
	result, err := asked(f.simulation, "CommitFeed", func(ctx context.Context, a *activities.Activities) (wire.CommitResult, error) {
		return a.CommitFeed(ctx, in)
	})
	if err != nil {
		return err
	}
	f.heads, f.pending = []string{result.Manifest}, wire.CommitFeedInput{}
	if stopped {
		f.waiting = nil
	}
	return nil
}

// feed runs the feed until it is closed and has finished.
func (f *feedSimulation) feed() (wire.FinishResult, error) {
	for runs := 0; ; runs++ {
		if err := f.resume(); errors.Is(err, errTerminated) {
			f.note("terminated")
			continue
		} else if err != nil {
			return wire.FinishResult{}, err
		}
		for rounds := f.pick(4, 70); rounds > 0 && !f.closed; rounds-- {
			if err := f.round(); err != nil {
				return wire.FinishResult{}, err
			}
			if f.pick(2, 50) == 1 {
				if err := f.commit(false); err != nil {
					return wire.FinishResult{}, err
				}
			}
		}
		if runs < 3 && f.bad(2, 40) == 1 {
			f.note("stopped with %d items", len(f.waiting))
			continue
		}
		for ; len(f.waiting) > 0; f.waiting = f.waiting[1:] {
			if err := f.process(f.waiting[0], 1); err != nil {
				return wire.FinishResult{}, err
			}
		}
		if err := f.commit(false); err != nil {
			return wire.FinishResult{}, err
		}
		in := wire.FinishInput{Ref: f.ref, Spec: f.spec, Manifests: f.heads, Planned: int64(len(f.items))}
		result, err := asked(f.simulation, "Finish of "+f.ref.Run, func(ctx context.Context, a *activities.Activities) (wire.FinishResult, error) {
			return a.Finish(ctx, in)
		})
		if err == nil && f.bad(2, 10) == 1 {
			f.note("the result of Finish is lost")
			continue
		}
		return result, err
	}
}

// redriveOnce runs the failed items again.
func (f *feedSimulation) redriveOnce() (wire.FinishResult, error) {
	f.newRun()
	f.redrive.Runs = append(f.redrive.Runs, f.ref.Run)
	batches, planned, err := f.plan(nil)
	var heads []string
	for err == nil && len(batches) > 0 {
		heads, err = f.do(batches[:min(2, len(batches))], heads)
		batches = batches[min(2, len(batches)):]
	}
	if err != nil {
		return wire.FinishResult{}, err
	}
	in := wire.FinishRedriveInput{FinishInput: wire.FinishInput{Ref: f.ref, Spec: f.spec, Manifests: heads, Planned: planned}, Redrive: *f.redrive}
	return asked(f.simulation, "FinishRedrive", func(ctx context.Context, a *activities.Activities) (wire.FinishResult, error) {
		return a.FinishRedrive(ctx, in)
	})
}

// checkFeed compares what is published with the model: each item, in order.
func (f *feedSimulation) checkFeed(result wire.FinishResult) error {
	if f.staged != nil {
		return f.checkStagedFeed(result)
	}
	var output, failed strings.Builder
	want := wire.Books{Items: int64(len(f.items)), Discarded: int64(len(f.discarded))}
	for i, item := range f.items {
		switch {
		case f.discarded[i]:
		case failing(item, f.generation):
			want.Failed++
			fmt.Fprintln(&failed, item)
		default:
			want.OK++
			fmt.Fprintln(&output, item)
		}
	}
	if got, _ := f.get("/out.txt"); string(got.data) != output.String() {
		return fmt.Errorf("the output is %q, and should be %q", got.data, output.String())
	}
	var found strings.Builder
	records, _ := f.get("/out.txt.errors.jsonl")
	for line := range strings.Lines(string(records.data)) {
		var record job.Failure
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			return err
		}
		fmt.Fprintln(&found, record.Error.Message)
	}
	if found.String() != failed.String() {
		return fmt.Errorf("the errors are of %q, and should be of %q", found.String(), failed.String())
	}
	got := result.Books
	got.Parts, got.Bytes, got.ErrBytes = 0, 0, 0
	if got != want {
		return fmt.Errorf("the books are %+v, and should be %+v", got, want)
	}
	return nil
}

// checkStagedFeed is checkFeed for a pipeline.
func (f *feedSimulation) checkStagedFeed(result wire.FinishResult) error {
	var want published
	m := &stagestest.Model{Handler: f.staged.Handler, Stages: f.spec.Stages}
	for i, item := range f.items {
		if f.discarded[i] {
			want.books.Items++
			want.books.Discarded++
			continue
		}
		want.add(item, f.item(m, int64(i), item), feeds.SourceName("job"), 0)
	}
	return f.checkPublished(&want, result)
}

// simulateFeed runs one schedule of a feed.
func simulateFeed(c *choices) (log []string, err error) {
	return newFeed(c, job.Spec{Pool: "pool", Format: "text", BatchItems: 3}).schedule()
}

// TestModel_FeedStages runs 2,000 schedules of feeds with random pipelines (50 with -short), the same ones each time:
// see [TestModel].
func TestModel_FeedStages(t *testing.T) {
	t.Parallel()
	runAll(t, 0.2, 2_000, 50, 4, func(c *choices) (log []string, err error) {
		f := newFeed(c, job.Spec{Format: "jsonl", BatchItems: 3, Stages: stagestest.Stages(evenly{c}, 12)})
		f.begin()
		return f.schedule()
	})
}

func newFeed(c *choices, spec job.Spec) *feedSimulation {
	s := &simulation{choices: c, contents: map[string]string{}}
	s.world = &world{objects: map[string]object{}, locked: map[string]bool{}}
	spec.Name, spec.Output = "job", bucket+"out.txt"
	if spec.Feed == nil {
		spec.Feed = &job.Feed{}
	}
	s.spec = spec.WithDefaults()
	return &feedSimulation{simulation: s, discarded: map[int]bool{}}
}

// schedule runs the feed, and its redrive.
func (f *feedSimulation) schedule() (log []string, err error) {
	s := f.simulation
	s.processes = []*process{s.newProcess(), s.newProcess()}
	defer func() {
		s.close()
		log = s.log
	}()
	result, err := f.feed()
	if err == nil {
		err = f.checkFeed(result)
	}
	if err != nil || s.pick(2, 50) == 0 {
		return nil, err
	}
	s.redrive = &job.Redrive{Manifests: f.heads, Output: result.Output, Planned: result.Books.Items, Runs: []string{s.ref.Run}}
	s.generation++
	for {
		result, err = f.redriveOnce()
		if !errors.Is(err, errTerminated) {
			break
		}
		s.note("the redrive begins anew")
	}
	if err == nil {
		err = f.checkFeed(result)
	}
	return nil, err
}
