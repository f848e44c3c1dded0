package outputs

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// joinFixture is a job of batches whose parts are joined early.
type joinFixture struct {
	t      *testing.T
	dir    string // of output and store
	spec   job.Spec
	ref    wire.Ref
	store  store.Dir
	joiner *earlyJoiner
	items  []string // lines
	// value is the result of an item; "" if it has none. Default: the item.
	value func(ordinal int) string
}

// setupJoin returns a job of 20 batches of 50 items each, which has begun.
func setupJoin(t *testing.T, output string) (f *joinFixture, batches []wire.Batch, want string) {
	t.Helper()
	want = jobtest.Lines(1000)
	f = &joinFixture{t: t, dir: t.TempDir(), items: strings.SplitAfter(want, "\n")}
	f.spec = job.Spec{Name: "test", Output: filepath.Join(f.dir, output)}
	if strings.HasSuffix(output, "/") {
		f.spec.Output += "/"
	}
	f.spec = f.spec.WithDefaults()
	f.joiner = NewJoiner(&store.Access{}).(*earlyJoiner)
	t.Cleanup(f.joiner.Close)
	f.begin("run-1")
	at := wire.Batch{Count: 50}
	for at.First < 1000 {
		at.Length = int64(len(strings.Join(f.items[at.First:at.First+50], "")))
		batches = append(batches, at.Sealed())
		at = at.After(at.Count, at.Length)
		at.Count = 50
	}
	return f, batches, want
}

// begin begins another run of the job.
func (f *joinFixture) begin(run string) {
	f.t.Helper()
	f.ref = wire.Ref{Job: "test", Run: run, Store: f.spec.Store}
	dir, err := (&store.Access{}).Open(context.Background(), f.spec.Store)
	require.NoError(f.t, err)
	f.store, f.ref.Sources = dir, ledger.NewSourcesKey(f.ref)
	require.NoError(f.t, dir.Put(context.Background(), f.ref.Sources, nil))
	require.NoError(f.t, ledger.Claim(context.Background(), f.ref, dir))
	f.joiner.Begin(f.ref, f.spec)
}

// write writes the outcomes of a batch, ten items at a time.
func (f *joinFixture) write(b wire.Batch) (*Part, wire.Entry) {
	f.t.Helper()
	e := wire.Entry{Batch: b, Part: ledger.NewToken(), OK: b.Count}
	p := NewPart(f.store, f.ref.Run, e, f.joiner)
	var results []byte
	for i := b.First; i < b.End(); i++ {
		line := f.items[i]
		if f.value != nil {
			line = f.value(int(i))
		}
		if line == "" {
			e.Dropped++
		}
		results = append(results, line...)
		if i%10 == 9 {
			var err error
			results, err = p.Results(context.Background(), results)
			require.NoError(f.t, err)
			require.Empty(f.t, results)
		}
	}
	return p, e
}

// process makes the part of a batch.
func (f *joinFixture) process(b wire.Batch) wire.Entry {
	f.t.Helper()
	p, e := f.write(b)
	defer p.Close()
	require.NoError(f.t, p.Commit(&e))
	return e
}

func (f *joinFixture) processAll(batches []wire.Batch) []wire.Entry {
	f.t.Helper()
	var all []wire.Entry
	for _, b := range batches {
		all = append(all, f.process(b))
	}
	return all
}

func (f *joinFixture) commit(entries ...wire.Entry) string {
	f.t.Helper()
	key, err := ledger.WriteManifest(context.Background(), f.store, f.ref, 0, nil, entries, wire.Besides{})
	require.NoError(f.t, err)
	return key
}

func (f *joinFixture) publication(heads ...string) *Publication {
	f.t.Helper()
	p, err := NewPublication(context.Background(), &store.Access{}, f.ref, f.spec)
	require.NoError(f.t, err)
	p.Links, err = ledger.Chain(context.Background(), p.Dir, heads)
	require.NoError(f.t, err)
	p.Books, err = ledger.CheckBooks(context.Background(), p.Dir, p.Links, 1000)
	require.NoError(f.t, err)
	return p
}

// finish publishes the output.
func (f *joinFixture) finish(heads ...string) job.Output {
	f.t.Helper()
	p := f.publication(heads...)
	require.NoError(f.t, p.Publish(context.Background(), f.joiner))
	require.NoError(f.t, p.Sweep(context.Background()))
	return p.Output
}

func (f *joinFixture) output() string {
	f.t.Helper()
	data, err := os.ReadFile(f.spec.Output)
	require.NoError(f.t, err)
	return string(data)
}

// part is the file of an entry's results.
func (f *joinFixture) part(e wire.Entry) string {
	return filepath.Join(f.spec.Store, ledger.ResultsKey(f.ref.Run, e))
}

// scratchFiles lists the unfinished files of the run.
func (f *joinFixture) scratchFiles() []string {
	f.t.Helper()
	names, err := filepath.Glob(filepath.Join(f.spec.Store, f.ref.Run, ".*.tmp"))
	require.NoError(f.t, err)
	return names
}

// awaitJoined waits until so many parts have been joined.
func (e *early) awaitJoined(t *testing.T, first int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.next == first && len(e.waiting) == 0
	}, time.Minute, time.Millisecond)
}

// awaitRead waits until all is written that the part has so far which begins with an item.
func (e *early) awaitRead(t *testing.T, first int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.next == first && e.holding == 0
	}, time.Minute, time.Millisecond)
}

// Parts are joined as they come, in whatever order; Finish adds only what is missing.
func TestEarly(t *testing.T) {
	t.Parallel()
	f, batches, want := setupJoin(t, "out.jsonl")
	e := f.joiner.current
	require.NotNil(t, e)
	require.Len(t, f.scratchFiles(), 1)
	random := jobtest.Seeded(t, 7)
	entries := f.processAll(jobtest.Shuffled(random, batches))
	e.awaitJoined(t, 1000)
	require.NoFileExists(t, f.spec.Output)
	head := f.commit(entries...)
	result := f.finish(head)
	require.Equal(t, want, f.output())
	require.EqualValues(t, len(want), result.Bytes)
	require.Equal(t, len(batches), e.joined.parts, "all of them before Finish")
	require.Nil(t, f.joiner.current)
	require.Empty(t, f.scratchFiles())
	require.Equal(t, result, f.finish(head), "it can be repeated")
}

// What Finish finds to be missing it joins itself, parts without results included.
func TestEarly_Partly(t *testing.T) {
	t.Parallel()
	f, batches, want := setupJoin(t, "out.jsonl")
	f.value = func(ordinal int) string {
		if ordinal < 100 || ordinal >= 500 && ordinal < 550 {
			return ""
		}
		return f.items[ordinal]
	}
	e := f.joiner.current
	entries := f.processAll(batches[:12])
	e.awaitJoined(t, 600)
	f.joiner.current = nil // parts that it does not learn of
	entries = append(entries, f.processAll(batches[12:])...)
	f.joiner.current = e
	f.finish(f.commit(entries...))
	all := strings.SplitAfter(want, "\n")
	require.Equal(t, strings.Join(all[100:500], "")+strings.Join(all[550:], ""), f.output())
	require.Equal(t, 12, e.joined.parts)
}

// takes reports whether Finish continues from what was joined early.
func (f *joinFixture) takes(head string) bool {
	f.t.Helper()
	joined, err := f.joiner.Take(context.Background(), f.ref.Run, f.publication(head).eachEntry)
	require.NoError(f.t, err)
	if joined.Joining == nil {
		return false
	}
	joined.End()
	joined.Joining.Abort()
	return true
}

// What counts are the parts that the workflow has accepted, whatever was joined.
func TestEarly_OthersAccepted(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *joinFixture, e *early, entries []wire.Entry, batches []wire.Batch){
		"nothing": func(*joinFixture, *early, []wire.Entry, []wire.Batch) {},
		"another execution": func(f *joinFixture, _ *early, entries []wire.Entry, batches []wire.Batch) {
			entries[5] = f.process(batches[5])
		},
		"more joined than accepted": func(_ *joinFixture, e *early, _ []wire.Entry, _ []wire.Batch) {
			e.close()
			<-e.ended
			e.joined.parts++
		},
		"given up": func(_ *joinFixture, e *early, _ []wire.Entry, _ []wire.Batch) {
			e.cancel()
			<-e.ended
		},
		"failed": func(_ *joinFixture, e *early, _ []wire.Entry, _ []wire.Batch) {
			e.close()
			<-e.ended
			e.err = errors.New("no space left")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, batches, want := setupJoin(t, "out.jsonl")
			e := f.joiner.current
			entries := f.processAll(batches)
			e.awaitJoined(t, 1000)
			spoil(f, e, entries, batches)
			head := f.commit(entries...)
			require.Equal(t, name == "nothing", f.takes(head))
			require.Empty(t, f.scratchFiles())
			f.finish(head)
			require.Equal(t, want, f.output())
		})
	}
}

// What is still in memory is not read again; what there was no room for is. All room is given back.
func TestEarly_Holds(t *testing.T) {
	t.Parallel()
	f, batches, want := setupJoin(t, "out.jsonl")
	e := f.joiner.current
	held := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.holding
	}
	entries := f.processAll(batches[1:5])
	require.Positive(t, held())
	require.NoError(t, os.Truncate(f.part(entries[0]), 1))
	e.mu.Lock()
	e.holding += MaxHeld
	e.mu.Unlock()
	entries = append(entries, f.processAll(batches[5:10])...)
	e.mu.Lock()
	e.holding -= MaxHeld
	require.Nil(t, e.waiting[batches[5].First].of.lines)
	require.NotNil(t, e.waiting[batches[4].First].of.lines)
	e.mu.Unlock()
	entries = append(entries, f.processAll(append(batches[10:], batches[0]))...)
	e.awaitJoined(t, 1000)
	f.finish(f.commit(entries...))
	require.Equal(t, want, f.output())
	require.Equal(t, len(batches), e.joined.parts)
	require.Zero(t, held())
}

// If a part does not fit, the one whose turn comes last is read again, whether or not it has been made.
func TestEarly_NoRoom(t *testing.T) {
	t.Parallel()
	f, batches, want := setupJoin(t, "out.jsonl")
	e := f.joiner.current
	held := func() (firsts []int64) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, m := range append(slices.Collect(maps.Values(e.making)), made(e)...) {
			if len(m.lines) > 0 {
				firsts = append(firsts, m.first)
			}
		}
		slices.Sort(firsts)
		return firsts
	}
	entries := f.processAll([]wire.Batch{batches[6], batches[9]})
	p, entry := f.write(batches[8])
	require.Equal(t, []int64{batches[6].First, batches[8].First, batches[9].First}, held())
	e.mu.Lock()
	others := MaxHeld - e.holding
	e.holding = MaxHeld
	e.mu.Unlock()
	entries = append(entries, f.process(batches[4]))
	require.Equal(t, []int64{batches[4].First, batches[6].First, batches[8].First}, held())
	entries = append(entries, f.process(batches[5]))
	require.Equal(t, []int64{batches[4].First, batches[5].First, batches[6].First}, held())
	entries = append(entries, f.process(batches[7]))
	require.Equal(t, []int64{batches[4].First, batches[5].First, batches[6].First}, held())
	e.mu.Lock()
	e.holding -= others
	e.mu.Unlock()
	require.NoError(t, p.Commit(&entry))
	entries = append(entries, entry)
	entries = append(entries, f.processAll(append(batches[10:], batches[:4]...))...)
	e.awaitJoined(t, 1000)
	f.finish(f.commit(entries...))
	require.Equal(t, want, f.output())
	require.Zero(t, e.holding)
}

// made are the parts that are made, and wait for their turn.
func made(e *early) (parts []*joinable) {
	for _, p := range e.waiting {
		parts = append(parts, p.of)
	}
	return parts
}

// A batch that fails gives back what it has held of its results.
func TestEarly_FailedBatch(t *testing.T) {
	t.Parallel()
	f, batches, _ := setupJoin(t, "out.jsonl")
	p, _ := f.write(batches[1])
	require.Positive(t, f.joiner.current.holding)
	p.Close()
	require.Zero(t, f.joiner.current.holding)
	require.Empty(t, f.joiner.current.waiting)
	require.Empty(t, f.joiner.current.making)
}

// A part whose turn it is goes into the file while it is made, and is taken back if it fails, or if another one is made in
// its place.
func TestEarly_WhileItIsMade(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]func(f *joinFixture, p *Part, e wire.Entry, b wire.Batch) wire.Entry{
		"made": func(f *joinFixture, p *Part, e wire.Entry, _ wire.Batch) wire.Entry {
			require.NoError(f.t, p.Commit(&e))
			p.Close()
			return e
		},
		"failed": func(f *joinFixture, p *Part, _ wire.Entry, b wire.Batch) wire.Entry {
			p.Close()
			return f.process(b)
		},
		"left behind": func(f *joinFixture, p *Part, _ wire.Entry, b wire.Batch) wire.Entry {
			f.t.Cleanup(p.Close)
			return f.process(b)
		},
		"late": func(f *joinFixture, p *Part, e wire.Entry, b wire.Batch) wire.Entry {
			other := f.process(b)
			f.joiner.current.awaitJoined(f.t, b.End())
			require.NoError(f.t, p.Commit(&e))
			return other
		},
		"made although another one is begun": func(f *joinFixture, p *Part, e wire.Entry, b wire.Batch) wire.Entry {
			other, _ := f.write(b)
			f.t.Cleanup(other.Close)
			f.joiner.current.awaitRead(f.t, b.First)
			require.NoError(f.t, p.Commit(&e))
			return e
		},
		"nothing done": func(f *joinFixture, p *Part, e wire.Entry, b wire.Batch) wire.Entry {
			e.Count = 0
			require.NoError(f.t, p.Commit(&e))
			return f.process(b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, batches, want := setupJoin(t, "out.jsonl")
			e := f.joiner.current
			entries := f.processAll(batches[:4])
			p, entry := f.write(batches[4])
			e.awaitRead(t, batches[4].First)
			entries = append(entries, undo(f, p, entry, batches[4]))
			entries = append(entries, f.processAll(batches[5:])...)
			e.awaitJoined(t, 1000)
			head := f.commit(entries...)
			require.Equal(t, len(batches), e.joined.parts)
			f.finish(head)
			require.Equal(t, want, f.output())
		})
	}
}

// A corrupt part is found while it is joined; Finish says so.
func TestEarly_CorruptPart(t *testing.T) {
	t.Parallel()
	f, batches, _ := setupJoin(t, "out.jsonl")
	e := f.joiner.current
	e.holding = MaxHeld // so that it is read
	second := f.process(batches[1])
	require.NoError(t, os.Truncate(f.part(second), second.Bytes-1))
	first := f.process(batches[0])
	<-e.ended
	require.Empty(t, f.scratchFiles(), "at once: the disk may be full")
	entries := append([]wire.Entry{first, second}, f.processAll(batches[2:])...)
	err := f.publication(f.commit(entries...)).Publish(context.Background(), f.joiner)
	jobtest.RequireType(t, err, job.ErrorCorrupt)
	require.NoFileExists(t, f.spec.Output)
	require.Empty(t, f.scratchFiles())
}

// Nothing is joined early if the output keeps its parts.
func TestEarly_Not(t *testing.T) {
	t.Parallel()
	f, _, _ := setupJoin(t, "out/")
	require.Nil(t, f.joiner.current, "parts stay parts")
	f.joiner.Begin(f.ref, job.Spec{})
	f.joiner.Begin(f.ref, job.Spec{Output: f.spec.Output + "{}.jsonl", Split: "kind"})
	require.Nil(t, f.joiner.current, "there is no output")
}

// If a killed process could leave the file where nobody finds it, nothing is joined early.
func TestEarly_ElsewhereNot(t *testing.T) {
	t.Parallel()
	out := jobtest.Elsewhere(t)
	f, batches, want := setupJoin(t, "out.jsonl")
	f.spec.Output = filepath.Join(out, "out.jsonl")
	f.joiner.replace(nil)
	f.begin("run-2")
	require.Nil(t, f.joiner.current)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, entries)
	f.finish(f.commit(f.processAll(batches)...))
	require.Equal(t, want, f.output())
}

// An early join ends with its worker, with the next job, and if it waits for too much.
func TestEarly_Ends(t *testing.T) {
	t.Parallel()
	f, batches, _ := setupJoin(t, "out.jsonl")
	e := f.joiner.current
	f.process(batches[3])
	f.begin("run-2")
	<-e.ended
	require.NotNil(t, f.joiner.current)
	require.NotSame(t, e, f.joiner.current)
	e = f.joiner.current
	e.part(0).Done(wire.Entry{})
	for i := range int64(maxWaiting + 1) {
		e.part(1000 + i).Done(wire.Entry{Batch: wire.Batch{First: 1000 + i, Count: 1}.Sealed()})
	}
	<-e.ended
	require.Len(t, e.waiting, maxWaiting)
	require.Empty(t, f.scratchFiles())
	f.joiner.Close()
	f.joiner.Close()
	e.giveUp()
}

// NoJoiner keeps nothing, and begins nothing.
func TestNoJoiner(t *testing.T) {
	t.Parallel()
	var j NoJoiner
	j.Begin(wire.Ref{Run: "run-1"}, job.Spec{Output: "out.jsonl"})
	part := j.Part("run-1", 0)
	require.False(t, part.Joins())
	require.Empty(t, part.Add([]byte("lines")))
	part.Done(wire.Entry{})
	part.Close()
	joined, err := j.Take(t.Context(), "run-1", nil)
	require.NoError(t, err)
	require.Zero(t, joined.Parts)
	require.Nil(t, joined.Joining)
	j.Close()
}
