package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/data/stages/stagestest"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// staged is what the simulation of a pipeline has beside.
type staged struct {
	program pipeline.Program
	stagestest.Handler
	deadly bool // some items kill the workers of some stages, until they are run again
	size   int  // most items of a call
	calm   bool // nothing goes wrong: so no stage gets an item twice, whatever stops there are
	stops  int
	totals job.Totals // of the report
	// items are those of a batch that came with it, of a feed; nil: it is a range of a source.
	items func(b wire.Batch) wire.Items

	mu       sync.Mutex
	seen     map[string]map[string]int // how often, by stage and item, in the first generation; 1 unless calm
	relisted bool                      // more than one version of the inputs may have been seen
}

// TestModel_Stages runs 750 schedules of random pipelines (25 with -short), the same ones each time: see [TestModel].
func TestModel_Stages(t *testing.T) {
	t.Parallel()
	runAll(t, 0.3, 750, 25, 3, simulateStages)
}

// simulateStages runs one schedule of a pipeline.
func simulateStages(c *choices) (log []string, err error) {
	s := newSimulation(c, job.Spec{Format: "jsonl", BatchItems: 1 + int64(c.pick(12, 80)), Stages: stagestest.Stages(evenly{c}, 12)})
	if s.pick(2, 30) == 1 {
		s.spec.Dropped = bucket + "dropped.jsonl"
	}
	s.begin()
	return s.schedule()
}

// begin decides what the stages of the spec do.
func (s *simulation) begin() {
	s.staged = &staged{
		program: pipeline.Compile(s.spec.Stages), seen: map[string]map[string]int{},
		Handler: stagestest.Handler{Failing: uint32(s.pick(3, 60)), Dropping: uint32(s.pick(3, 60))},
		deadly:  s.pick(4, 50) == 1, size: []int{3, 1, 100}[s.pick(3, 50)], calm: s.pick(4, 35) == 1,
	}
	s.note("%+v: %d steps", s.spec.Stages, len(s.staged.program))
}

// evenly makes choices that are all as probable.
type evenly struct{ *choices }

func (e evenly) IntN(n int) int { return e.pick(n, 100*(n-1)/n) }

// stageKey is the key of a context whose value is a *stageCalls.
type stageKey struct{}

// stageCalls are the calls of one execution of a step.
type stageCalls struct {
	stage string
	slow  int // the call that asks for fewer of them, from 1; 0: none
	made  int
}

// call answers the items of a stage.
func (g *staged) call(c *calls.Call, generation int) error {
	of := c.Begin().Value(stageKey{}).(*stageCalls)
	defer c.End()
	if of.made++; of.made == of.slow {
		c.SlowDown(time.Nanosecond) // the items without an answer are the batch's rest
		c.Items = c.Items[:min(1, len(c.Items)-1)]
	}
	h := g.Handler
	h.Failing >>= generation
	for _, item := range c.Items {
		g.see(of.stage, string(item.Data), generation)
		switch answer, end := h.Answer(of.stage, string(item.Data)); end {
		case stagestest.Fails:
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: stagestest.Broken, Message: of.stage}}, 1)
		case stagestest.Drops:
			c.Answer.Drop()
		default:
			c.Answer.Line([]byte(answer))
		}
	}
	return nil
}

func (g *staged) see(stage, item string, generation int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if generation > 0 {
		return
	}
	if g.seen[stage] == nil {
		g.seen[stage] = map[string]int{}
	}
	if plain := stagestest.Plain(item); g.calm {
		g.seen[stage][plain]++
	} else {
		g.seen[stage][plain] = 1
	}
}

// kills reports whether an item, by its ordinal in the first generation, kills the workers of a stage.
func (g *staged) kills(stage string, ordinal int64) bool {
	sum := fnv.New32a()
	fmt.Fprint(sum, stage, "/", ordinal)
	return g.deadly && sum.Sum32()>>8%40 == 0
}

// relisted notes that the job may have begun with other inputs than those that count.
func (s *simulation) relisted() {
	if s.staged != nil {
		s.staged.relisted = true
	}
}

var errStopped = fmt.Errorf("the job was stopped: %w", errTerminated)

// flow takes batches through the steps of the pipeline, in any order, and commits what has come through the last one. A
// stop, and the end of the workflow, may come anywhere.
func (s *simulation) flow(waiting []wire.Batch, heads []string) ([]string, error) {
	var entries []wire.Entry
	for len(waiting) > 0 {
		i := s.pick(len(waiting), 60)
		b := waiting[i]
		waiting = slices.Delete(slices.Clone(waiting), i, i+1)
		r, err := s.step(b)
		if err != nil {
			return nil, err
		}
		if r.Rest != nil {
			waiting = slices.Insert(waiting, 0, *r.Rest)
		}
		switch {
		case r.Entry.Count == 0:
		case r.Written == nil:
			entries = append(entries, r.Entry)
		default:
			next := s.staged.program.Advance(b, r.Rest, s.ref.Run, *r.Written, r.Routed, r.Cuts)
			waiting = slices.Insert(waiting, 0, next...)
		}
		if r.Entry.Count > 0 {
			s.staged.totals.Add(r.Totals)
		}
		if s.staged.stops < 3 && s.pick(2, 2) == 1 {
			return s.stop(entries, waiting, heads)
		}
		if len(entries) > 2 && s.pick(2, 50) == 1 {
			if heads, err = s.commit(entries, nil, heads); err != nil {
				return nil, err
			}
			entries = nil
		}
		if s.bad(2, 3) == 1 {
			return heads, errTerminated
		}
	}
	return s.commit(entries, nil, heads)
}

// stop commits what has been done, and where the batches stand that are between two stages: by one leg, or by two.
func (s *simulation) stop(entries []wire.Entry, waiting []wire.Batch, before []string) (heads []string, err error) {
	s.staged.stops++
	var between []wire.Batch
	for _, b := range waiting {
		if b.From != nil {
			between = append(between, b)
		}
	}
	s.note("a stop: %d batches are between two stages", len(between))
	ours, theirs := s.pick(len(between)+1, 50), s.pick(len(entries)+1, 50)
	if ours+theirs > 0 {
		if heads, err = s.commit(entries[:theirs], between[:ours], before); err != nil {
			return nil, err
		}
	}
	others, err := s.commit(entries[theirs:], between[ours:], before)
	if err != nil {
		return nil, err
	}
	heads = slices.Compact(append(heads, others...))
	return heads, errStopped
}

// commit has a manifest written, unless there is nothing to commit.
func (s *simulation) commit(entries []wire.Entry, between []wire.Batch, heads []string) ([]string, error) {
	if len(entries)+len(between) == 0 {
		return heads, nil
	}
	in, err := sent(wire.CommitInput{Ref: s.ref, Previous: heads, Entries: entries, Between: between})
	if err != nil {
		return nil, err
	}
	result, err := asked(s, "Commit", func(ctx context.Context, a *activities.Activities) (wire.CommitResult, error) {
		in := in
		in.Entries = slices.Clone(in.Entries)
		return a.Commit(ctx, in)
	})
	return []string{result.Manifest}, err
}

// step executes the step that a batch is for: all of its items, or the first ones.
func (s *simulation) step(b wire.Batch) (wire.ProcessResult, error) {
	at := 0
	if b.From != nil {
		at = b.From.Step
	}
	step := &s.staged.program[at]
	spilled := s.spec.Feed != nil && s.staged.items == nil // such batches stay as they are
	if at > 0 && !spilled && step.Items > 0 && b.Count > step.Items {
		return wire.ProcessResult{}, fmt.Errorf("stage %s gets a batch of %d items, and wants at most %d", step.Name, b.Count, step.Items)
	}
	in := wire.ProcessInput{
		Ref: s.ref, Batch: b, Stage: &step.Stage, KeepDrops: s.spec.Dropped != "",
		Calls: wire.CallLimits{Attempts: 1, ItemAttempts: 1, Backoff: time.Nanosecond},
	}
	if s.staged.items != nil {
		in.Items, in.Format = s.staged.items(b), s.spec.Format
	}
	if take := s.pick(int(b.Count), 20); take > 0 {
		in.Take = int64(take)
	}
	for i := range b.Count {
		if s.generation > 0 || step.Gather || !s.staged.kills(step.Name, b.First+i) {
			continue
		}
		// What a leg has found out by halving the batch (see package suspicion).
		if in.Take = max(1, i); i == 0 {
			in.Verdict = &wire.Verdict{Kind: job.KindCrash, Attempts: 3, Error: job.Error{Type: stagestest.Died, Message: step.Name}}
		}
		break
	}
	in, err := sent(in)
	if err != nil {
		return wire.ProcessResult{}, err
	}
	slow := s.pick(3, 5)
	r, err := asked(s, "Process "+step.Name+" "+b.String(), func(ctx context.Context, a *activities.Activities) (wire.ProcessResult, error) {
		return a.Process(context.WithValue(ctx, stageKey{}, &stageCalls{stage: step.Name, slow: slow}), in)
	})
	if err != nil {
		return r, err
	}
	return sent(r)
}

// sent is v as it arrives at the other end of Temporal.
func sent[T any](v T) (got T, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &got)
	}
	return got, err
}

// published is what the files beside the output, and the output, should have.
type published struct {
	output, dropped strings.Builder
	failed          []job.Failure
	books           wire.Books
}

// add adds what becomes of an item, which is the next.
func (p *published) add(item string, e stagestest.Ending, source string, offset int64) {
	switch {
	case e.Failed():
		p.books.Failed++
		p.failed = append(p.failed, job.Failure{
			Item: p.books.Items, Stage: e.Stage, Source: source, Offset: offset, Input: json.RawMessage(item), Error: job.Error{Type: e.Type},
		})
	case e.Value == "":
		p.books.Dropped++
		p.books.OK++
		fmt.Fprintln(&p.dropped, item)
	default:
		p.books.OK++
		fmt.Fprintln(&p.output, e.Value)
	}
	p.books.Items++
}

// item has an item take its way through the pipeline: until it does not fail, once in each generation.
func (s *simulation) item(m *stagestest.Model, ordinal int64, item string) (e stagestest.Ending) {
	see := m.See
	for g := 0; g <= s.generation; g++ {
		m.Failing, m.See, m.Kills = s.staged.Failing>>g, nil, nil
		if g == 0 {
			m.See, m.Kills = see, func(stage string) bool { return s.staged.kills(stage, ordinal) }
		}
		if e = m.Run(item); !e.Failed() {
			break
		}
	}
	m.See = see
	return e
}

// wantStaged is the model: what must have become of what the accepted source table holds, and which items each stage
// must have seen.
func (s *simulation) wantStaged(accepted *inputs.Table) (want published, seen map[string]map[string]int) {
	seen = map[string]map[string]int{}
	m := &stagestest.Model{Handler: s.staged.Handler, Stages: s.spec.Stages, See: func(stage, item string) {
		if seen[stage] == nil {
			seen[stage] = map[string]int{}
		}
		if seen[stage][item]++; !s.staged.calm {
			seen[stage][item] = 1
		}
	}}
	for input := range accepted.Inputs() {
		text := s.read
		if input.URL != "-" {
			text = s.contents[input.URL+" "+input.ETag]
		}
		offset := int64(0)
		for line := range strings.Lines(text) {
			item := strings.TrimSuffix(line, "\n")
			want.add(item, s.item(m, want.books.Items, item), input.URL, offset)
			offset += int64(len(line))
		}
	}
	return want, seen
}

// checkStaged compares what is published, the books and the report's counts with the model.
func (s *simulation) checkStaged(accepted *inputs.Table, result wire.FinishResult) error {
	want, seen := s.wantStaged(accepted)
	if err := s.checkPublished(&want, result); err != nil {
		return err
	}
	if s.generation > 0 && s.ref.Sources == "" { // an earlier run of the redrive had published this
		return nil
	}
	if s.generation > 0 {
		return s.checkTotals(s.planned, want.books.Failed, -1)
	}
	if err := s.checkTotals(want.books.Items, want.books.Failed, want.books.Dropped); err != nil {
		return err
	}
	s.staged.mu.Lock()
	defer s.staged.mu.Unlock()
	for _, stage := range s.spec.StagePools() {
		if !s.staged.relisted && !maps.Equal(seen[stage.Name], s.staged.seen[stage.Name]) {
			return fmt.Errorf("stage %s has seen %v, and should have seen %v", stage.Name, s.staged.seen[stage.Name], seen[stage.Name])
		}
	}
	return s.checkSwept()
}

// checkPublished compares the files and the books with the model.
func (s *simulation) checkPublished(want *published, result wire.FinishResult) error {
	got, _ := s.get("/out.txt")
	if found := stagestest.Plain(string(got.data)); found != want.output.String() {
		return fmt.Errorf("the output is %q, and should be %q", found, want.output.String())
	}
	if got, _ := s.get("/dropped.jsonl"); s.spec.Dropped != "" && string(got.data) != want.dropped.String() {
		return fmt.Errorf("dropped are %q, and should be %q", got.data, want.dropped.String())
	}
	books := result.Books
	books.Parts, books.Bytes, books.ErrBytes = 0, 0, 0
	if books != want.books {
		return fmt.Errorf("the books are %+v, and should be %+v", books, want.books)
	}
	return s.checkErrors(want.failed, result)
}

// checkErrors compares the errors file with the model.
func (s *simulation) checkErrors(want []job.Failure, result wire.FinishResult) error {
	var found []job.Failure
	errorsFile, there := s.get("/out.txt.errors.jsonl")
	for line := range bytes.Lines(errorsFile.data) {
		var f job.Failure
		if err := json.Unmarshal(line, &f); err != nil {
			return err
		}
		found = append(found, job.Failure{
			Item: f.Item, Stage: f.Stage, Source: f.Source, Offset: f.Offset, Input: f.Input, Error: job.Error{Type: f.Error.Type},
		})
	}
	is, err := json.Marshal(found)
	if err != nil {
		return err
	}
	should, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if !bytes.Equal(is, should) {
		return fmt.Errorf("the errors are\n%s, and should be\n%s", is, should)
	}
	if there != (len(want) > 0) || (result.Output.Errors != "") != there {
		return fmt.Errorf("there is an errors file: %v; the report says %+v", there, result)
	}
	return nil
}

// checkTotals compares the counts that the report of the last run adds up to; with dropped < 0 not that of dropped
// items.
func (s *simulation) checkTotals(items, failed, dropped int64) error {
	t := s.staged.totals
	if t.OK+t.Failed != items || t.Failed != failed || dropped >= 0 && t.Dropped != dropped || t.Between != 0 {
		return fmt.Errorf("the report counts %d items, %d of them failed, %d dropped and %d between two stages, and should count %d, %d, %d and 0",
			t.OK+t.Failed, t.Failed, t.Dropped, t.Between, items, failed, dropped)
	}
	return nil
}

// checkSwept returns an error if the store has results of parts, unless something may have gone wrong.
func (s *simulation) checkSwept() error {
	if !s.staged.calm {
		return nil
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for key := range s.objects {
		if strings.Contains(key, "/parts/") && strings.HasSuffix(key, ".out") {
			return fmt.Errorf("%s is left in the store", key)
		}
	}
	return nil
}
