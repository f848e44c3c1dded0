package activities

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// setupEarly returns a job of many batches, planned by a worker that is alone. Its page holds n
// items at most.
func setupEarly(t *testing.T, output string) (f *fixture, batches []job.Batch, want string) {
	t.Helper()
	want = lines(1000)
	f = setup(t, "in.jsonl", want)
	f.spec.Output, f.spec.Store, f.spec.Errors = f.dir+"/"+output, "", ""
	f.spec.BatchItems = 50
	f.newRun("run-1")
	f.serve(&fake{}, Options{Alone: true})
	first, result := f.page(3)
	require.False(t, result.Done)
	batches = append(first, f.plan()...)
	require.Len(t, batches, 20)
	return f, batches, want
}

// scratchFiles lists the unfinished files of the run.
func (f *fixture) scratchFiles() []string {
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

// Parts are joined as they come, in whatever order; Finish adds only what is missing.
func TestEarly(t *testing.T) {
	t.Parallel()
	f, batches, want := setupEarly(t, "out.jsonl")
	e := f.acts.early
	require.NotNil(t, e)
	require.Len(t, f.scratchFiles(), 1)
	random := seeded(t, 7)
	entries := f.processAll(shuffled(random, batches))
	e.awaitJoined(t, 1000)
	require.NoFileExists(t, f.path("out.jsonl"))
	head := f.commit(nil, entries...)
	result := f.finish(head)
	require.Equal(t, want, f.read("out.jsonl"))
	require.EqualValues(t, len(want), result.Output.Bytes)
	require.Equal(t, len(batches), e.joined.parts, "all of them before Finish")
	require.Nil(t, f.acts.early)
	require.Empty(t, f.scratchFiles())
	require.Equal(t, result, f.finish(head), "it can be repeated")
}

// What Finish finds to be missing it joins itself, parts without results included.
func TestEarly_Partly(t *testing.T) {
	t.Parallel()
	f, batches, want := setupEarly(t, "out.jsonl")
	f.acts.opts.Handler = &fake{each: func(c *Call, item Item) {
		if item.Ordinal < 100 || item.Ordinal >= 500 && item.Ordinal < 550 {
			c.Answer.Drop()
			return
		}
		c.Answer.Line(item.Data)
	}}
	e := f.acts.early
	entries := f.processAll(batches[:12])
	e.awaitJoined(t, 600)
	f.acts.early = nil // parts that it is not told of
	entries = append(entries, f.processAll(batches[12:])...)
	f.acts.early = e
	f.finish(f.commit(nil, entries...))
	all := strings.SplitAfter(want, "\n")
	require.Equal(t, strings.Join(all[100:500], "")+strings.Join(all[550:], ""), f.read("out.jsonl"))
	require.Equal(t, 12, e.joined.parts)
}

// takesEarly tells whether Finish goes on from what was joined early.
func (f *fixture) takesEarly(head string) bool {
	f.t.Helper()
	links, err := chain(context.Background(), f.store(), []string{head})
	require.NoError(f.t, err)
	fin := &finish{acts: f.acts, in: f.finishInput(head), dir: f.store(), links: links}
	e, err := fin.takeEarly(context.Background())
	require.NoError(f.t, err)
	if e == nil {
		return false
	}
	e.giveUp()
	return true
}

// What counts are the parts that the workflow has accepted, whatever was joined.
func TestEarly_OthersAccepted(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *fixture, e *early, entries []Entry, batches []job.Batch){
		"nothing": func(*fixture, *early, []Entry, []job.Batch) {},
		"another execution": func(f *fixture, _ *early, entries []Entry, batches []job.Batch) {
			entries[5] = f.process(batches[5]).Entry
		},
		"more joined than accepted": func(_ *fixture, e *early, _ []Entry, _ []job.Batch) {
			e.close()
			<-e.ended
			e.joined.parts++
		},
		"given up": func(_ *fixture, e *early, _ []Entry, _ []job.Batch) {
			e.cancel()
			<-e.ended
		},
		"failed": func(_ *fixture, e *early, _ []Entry, _ []job.Batch) {
			e.close()
			<-e.ended
			e.err = errors.New("no space left")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, batches, want := setupEarly(t, "out.jsonl")
			e := f.acts.early
			entries := f.processAll(batches)
			e.awaitJoined(t, 1000)
			spoil(f, e, entries, batches)
			head := f.commit(nil, entries...)
			require.Equal(t, name == "nothing", f.takesEarly(head))
			require.Empty(t, f.scratchFiles())
			f.finish(head)
			require.Equal(t, want, f.read("out.jsonl"))
		})
	}
}

// What is still in memory is not read again; what there was no room for is. All room is given back.
func TestEarly_Holds(t *testing.T) {
	t.Parallel()
	f, batches, want := setupEarly(t, "out.jsonl")
	e := f.acts.early
	held := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.holding
	}
	entries := []Entry{}
	for _, b := range batches[1:5] {
		entries = append(entries, f.process(b).Entry)
	}
	require.Positive(t, held())
	require.NoError(t, os.Truncate(filepath.Join(f.spec.Store, resultsKey(f.ref.Run, entries[0])), 1))
	e.mu.Lock()
	e.holding += maxHeld
	e.mu.Unlock()
	for _, b := range batches[5:10] {
		entries = append(entries, f.process(b).Entry)
	}
	e.mu.Lock()
	e.holding -= maxHeld
	require.Nil(t, e.waiting[batches[5].First].held)
	require.NotNil(t, e.waiting[batches[4].First].held)
	e.mu.Unlock()
	entries = append(entries, f.processAll(append(batches[10:], batches[0]))...)
	e.awaitJoined(t, 1000)
	f.finish(f.commit(nil, entries...))
	require.Equal(t, want, f.read("out.jsonl"))
	require.Equal(t, len(batches), e.joined.parts)
	require.Zero(t, held())
}

// A batch that fails gives back what it has held of its results.
func TestEarly_FailedBatch(t *testing.T) {
	t.Parallel()
	f, batches, _ := setupEarly(t, "out.jsonl")
	handler := &fake{size: CallSize{Items: 10}}
	handler.each = func(c *Call, item Item) {
		if item.Ordinal == 25 {
			f.write("in.jsonl", lines(999)) // it is found at the end
		}
		c.Answer.Line(item.Data)
	}
	f.acts.opts.Handler = handler
	_, err := f.acts.Process(t.Context(), f.input(batches[0]))
	requireType(t, err, job.ErrorChanged)
	require.Equal(t, 5, handler.calls())
	require.Zero(t, f.acts.early.holding)
}

// A corrupt part is found while it is joined; Finish says so.
func TestEarly_CorruptPart(t *testing.T) {
	t.Parallel()
	f, batches, _ := setupEarly(t, "out.jsonl")
	e := f.acts.early
	e.holding = maxHeld // so that it is read
	second := f.process(batches[1]).Entry
	require.NoError(t, os.Truncate(filepath.Join(f.spec.Store, resultsKey(f.ref.Run, second)), second.Bytes-1))
	first := f.process(batches[0]).Entry
	<-e.ended
	require.Empty(t, f.scratchFiles(), "at once: the disk may be full")
	entries := append([]Entry{first, second}, f.processAll(batches[2:])...)
	_, err := f.acts.Finish(context.Background(), f.finishInput(f.commit(nil, entries...)))
	requireType(t, err, job.ErrorCorrupt)
	require.NoFileExists(t, f.path("out.jsonl"))
	require.Empty(t, f.scratchFiles())
}

// Nobody joins early where it would be of no use.
func TestEarly_Not(t *testing.T) {
	t.Parallel()
	f, _, _ := setupEarly(t, "out/")
	require.Nil(t, f.acts.early, "parts stay parts")
	f = setup(t, "in.jsonl", lines(1000))
	f.spec.BatchItems = 50
	f.page(3)
	require.Nil(t, f.acts.early, "there may be other workers")
	f.serve(&fake{}, Options{Alone: true})
	f.newRun("run-2")
	f.plan()
	require.Nil(t, f.acts.early, "one page: there is no hurry")
}

// Where a killed process could leave the file unfound, nothing is joined early.
func TestEarly_ElsewhereNot(t *testing.T) {
	t.Parallel()
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		t.Skip("needs another file system")
	}
	out, err := os.MkdirTemp("/dev/shm", "stint")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(out) })
	f := setup(t, "in.jsonl", lines(1000))
	f.spec.Output, f.spec.Store, f.spec.Errors, f.spec.BatchItems = filepath.Join(out, "out.jsonl"), f.path("store"), "", 50
	f.newRun("run-1")
	f.serve(&fake{}, Options{Alone: true})
	first, _ := f.page(3)
	require.Nil(t, f.acts.early)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, entries)
	f.finish(f.commit(nil, f.processAll(append(first, f.plan()...))...))
	data, err := os.ReadFile(f.spec.Output)
	require.NoError(t, err)
	require.Equal(t, lines(1000), string(data))
}

// What a killed process has left of a run that another goes on from is found, too.
func TestFinish_SweepsEarlierRuns(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", lines(100))
	heads, want, wantErrors := f.done(2)
	left := filepath.Join(f.spec.Store, "run-1", ".out.jsonl.abcdefghijklm.tmp")
	require.NoError(t, os.WriteFile(left, []byte("half"), 0o666))
	f.finish(heads...)
	f.requireOutput(want, wantErrors)
	require.NoFileExists(t, left)
}

// An early join ends with its worker, with the next job, and where it waits for too much.
func TestEarly_Ends(t *testing.T) {
	t.Parallel()
	f, batches, _ := setupEarly(t, "out.jsonl")
	e := f.acts.early
	f.process(batches[3])
	f.newRun("run-2")
	f.page(3)
	<-e.ended
	require.NotNil(t, f.acts.early)
	require.NotSame(t, e, f.acts.early)
	e = f.acts.early
	e.offer(Entry{}, nil)
	for i := range maxWaiting + 1 {
		e.offer(Entry{Batch: job.Batch{First: int64(1000 + i), Count: 1}}, nil)
	}
	<-e.ended
	require.Len(t, e.waiting, maxWaiting)
	require.Empty(t, f.scratchFiles())
	f.acts.Close()
	f.acts.Close()
	e.giveUp()
	(*early)(nil).giveUp()
	(*early)(nil).offer(Entry{}, nil)
}
