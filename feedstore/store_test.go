package feedstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stint-run/stint/internal/data/feeds"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store with what a feed has committed.
type world struct {
	t         *testing.T
	location  string
	dir       store.Dir
	ref       wire.Ref
	manifests []string
	accepted  int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, location: t.TempDir()}
	var access store.Access
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	dir, err := access.Open(t.Context(), w.location)
	require.NoError(t, err)
	w.dir, w.ref = dir, wire.Ref{Job: "risk", Run: "run", Store: w.location, Sources: "run/sources.json"}
	return w
}

// part writes a batch whose outcomes are lines; "!text" is a failure, "-" is dropped.
func (w *world) part(first, session int64, lines ...string) wire.StoredPart {
	w.t.Helper()
	inline := &wire.Inline{}
	e := wire.Entry{Batch: wire.Batch{First: first, Count: int64(len(lines))}.Sealed(), Session: session}
	for i, line := range lines {
		at := int64(len(inline.Results))
		switch {
		case line == "-":
			e.OK++
			e.Dropped++
			inline.Notes = append(inline.Notes, ledger.DroppedLine(at))
		case strings.HasPrefix(line, "!"):
			e.Failed++
			failure := job.Failure{Item: first + int64(i), Kind: job.KindError, Error: job.Error{Message: line[1:]}, Attempts: 1}
			inline.Notes = append(inline.Notes, ledger.SilentLine(at, failure))
		default:
			e.OK++
			inline.Results = append(append(inline.Results, line...), '\n')
		}
	}
	require.NoError(w.t, inline.Sums(&e))
	w.accepted = max(w.accepted, e.End())
	manifest, err := feeds.Commit(w.t.Context(), w.dir, wire.CommitFeedInput{Ref: w.ref, Previous: w.manifests, Accepted: w.accepted, Entries: []wire.FeedEntry{{Entry: e, Inline: inline}}})
	require.NoError(w.t, err)
	w.manifests = []string{manifest}
	_, entries, err := ledger.ReadManifest(w.t.Context(), w.dir, manifest)
	require.NoError(w.t, err)
	return partOf(w.location, entries[0])
}

func (w *world) report() job.Report {
	return job.Report{State: job.Running, Store: w.location, Manifests: w.manifests, Feed: &job.FeedReport{}}
}

func (w *world) store(o Options) *Store {
	s := New(o)
	w.t.Cleanup(func() { require.NoError(w.t, s.Close()) })
	return s
}

// Each item's outcome is found at its place, whether the part is kept or not, and by the manifests as well.
func TestStore_Outcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.part(0, 1, "0")
	at := w.part(1, 1, "-", "!bad", `"a"`, "no json", "!worse", "", "-")
	w.part(8, 2, strings.Repeat("9", 100_000), "10")
	for _, cache := range []int64{0, -1, 100} {
		s := w.store(Options{CacheBytes: cache})
		for item, want := range map[int64]string{1: "dropped", 2: "bad", 3: `"a"`, 4: `"no json"`, 5: "worse", 6: `""`, 7: "dropped"} {
			byPart, err := s.Outcome(t.Context(), at, item)
			require.NoError(t, err)
			found, ok, err := s.Find(t.Context(), w.report(), item)
			require.NoError(t, err)
			require.True(t, ok)
			require.EqualValues(t, 1, found.Session)
			for _, o := range []wire.ItemResult{byPart, found} {
				switch {
				case o.Dropped:
					require.Equal(t, "dropped", want)
				case o.Failure != nil:
					require.Contains(t, string(o.Failure), want)
				default:
					require.Equal(t, want, string(o.Result))
				}
			}
		}
		_, found, err := s.Find(t.Context(), w.report(), 10)
		require.NoError(t, err)
		require.False(t, found, "not committed")
		o, found, err := s.Find(t.Context(), w.report(), 8)
		require.NoError(t, err)
		require.True(t, found)
		require.Len(t, o.Result, 100_000)
		_, err = s.Outcome(t.Context(), at, 8)
		require.ErrorContains(t, err, "item 8 is not in its part")
	}
}

// To look for a young item, or to follow from a cursor, what was written before is not read: it may be days of
// manifests.
func TestStore_YoungItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.part(0, 1, "0", "1")
	old := w.manifests[0]
	w.part(2, 1, "2", "3")
	w.part(5, 1, "5")
	require.NoError(t, os.Remove(filepath.Join(w.location, filepath.FromSlash(old))))
	s := w.store(Options{})
	for item, committed := range map[int64]bool{2: true, 3: true, 4: false, 5: true, 6: false, 100: false} {
		_, found, err := s.Find(t.Context(), w.report(), item)
		require.NoError(t, err, item)
		require.Equal(t, committed, found, item)
	}
	_, _, err := s.Find(t.Context(), w.report(), 1)
	require.ErrorContains(t, err, "/"+old+": no such file or directory")
	var lines []string
	w.part(4, 1, "4")
	err = s.Follow(jobs.FeedCursor{Item: 4}).Next(t.Context(), w.report(), func(line []byte, _ jobs.FeedCursor) error {
		lines = append(lines, string(line))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"4", "5"}, lines)
}

// A part that is not what was accepted, one that is gone, and one that is out of bounds.
func TestStore_Broken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := w.part(0, 1, "12", "34", "!no")
	for _, change := range []func(*wire.StoredPart){
		func(p *wire.StoredPart) { p.Sum++ },
		func(p *wire.StoredPart) { p.Bytes++ },
		func(p *wire.StoredPart) { p.Count++ },
		func(p *wire.StoredPart) { p.ErrSum++ },
	} {
		changed := at
		change(&changed)
		_, err := w.store(Options{}).Outcome(t.Context(), changed, 0)
		require.ErrorContains(t, err, "part run/parts/")
		require.NotErrorIs(t, err, fs.ErrNotExist)
	}
	s := w.store(Options{Allow: []string{t.TempDir()}})
	_, err := s.Outcome(t.Context(), at, 0)
	var denied *store.DeniedError
	require.ErrorAs(t, err, &denied)
	_, _, err = s.Find(t.Context(), w.report(), 0)
	require.ErrorAs(t, err, &denied)
	require.ErrorAs(t, s.Follow(jobs.FeedCursor{}).Next(t.Context(), w.report(), nil), &denied)

	parts, err := filepath.Glob(filepath.Join(w.location, "run", "parts", "*.out"))
	require.NoError(t, err)
	require.Len(t, parts, 1)
	require.NoError(t, os.Remove(parts[0]))
	_, err = w.store(Options{}).Outcome(t.Context(), at, 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, w.store(Options{}).Follow(jobs.FeedCursor{}).Next(t.Context(), w.report(), nil), "a later report names the output")
}

// Many callers of one part read it once; what is kept is bounded; at most four parts are read at a time; a reader that
// gives up leaves the part to the others.
func TestCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c cache[wire.StoredPart, *part]
		c.init(1000, func(p *part) int64 { return p.size })
		turns := make(chan struct{}, maxReads)
		var reads, now, most atomic.Int64
		gate := make(chan struct{})
		read := func(ctx context.Context) func() (*part, error) {
			return func() (*part, error) {
				reads.Add(1)
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				select {
				case <-gate:
					return &part{size: 300}, nil
				case <-ctx.Done():
					return nil, fmt.Errorf("reading: %w", ctx.Err())
				}
			}
		}
		get := func(ctx context.Context, n int) error {
			_, err := c.get(ctx, wire.StoredPart{First: int64(n)}, func() (*part, error) { return inTurn(ctx, turns, read(ctx)) })
			return err
		}
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { require.ErrorIs(t, get(ctx, 0), context.Canceled) })
		synctest.Wait()
		for n := range 100 {
			all.Go(func() { require.NoError(t, get(t.Context(), n%10)) })
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(gate)
		all.Wait()
		require.EqualValues(t, 11, reads.Load(), "each once, and the one that was left again")
		require.EqualValues(t, maxReads, most.Load())
		require.Len(t, c.known, 3)
		require.EqualValues(t, 900, c.size)
		kept := int(c.known[0].key.First)
		require.NoError(t, get(t.Context(), kept))
		require.EqualValues(t, 11, reads.Load())
		require.EqualValues(t, kept, c.known[2].key.First, "used last")
	})
}

// Results come in order of the items although parts are committed in any; a cursor goes on in the middle of a part; a
// session is read alone.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.store(Options{})
	read := func(f jobs.FeedFollower, report job.Report) (lines []string, cursors []jobs.FeedCursor) {
		require.NoError(t, f.Next(t.Context(), report, func(line []byte, next jobs.FeedCursor) error {
			lines, cursors = append(lines, string(line)), append(cursors, next)
			return nil
		}))
		return lines, cursors
	}
	f := s.Follow(jobs.FeedCursor{})
	got, _ := read(f, w.report())
	require.Empty(t, got)
	w.part(2, 1, "2", "!x", "4")
	got, _ = read(f, w.report())
	require.Empty(t, got, "items 0 and 1 are not there")
	w.part(0, 1, "0", "1")
	got, cursors := read(f, w.report())
	require.Equal(t, []string{"0", "1", "2", "4"}, got)
	w.part(5, 2, "5", "-", "7")
	got, more := read(f, w.report())
	require.Equal(t, []string{"5", "7"}, got)
	all := []string{"0", "1", "2", "4", "5", "7"}
	for i, at := range append(cursors, more...) {
		rest, _ := read(s.Follow(at), w.report())
		require.Equal(t, all[i+1:], append([]string{}, rest...), "from %s", at)
	}
	got, _ = read(s.Follow(jobs.FeedCursor{Session: 2}), w.report())
	require.Equal(t, []string{"5", "7"}, got)
	err := s.Follow(jobs.FeedCursor{Item: 3}).Next(t.Context(), w.report(), nil)
	require.ErrorContains(t, err, "another feed's")
	enough := errors.New("enough")
	require.ErrorIs(t, s.Follow(jobs.FeedCursor{}).Next(t.Context(), w.report(), func([]byte, jobs.FeedCursor) error { return enough }), enough)

	// Finish has joined the parts.
	finished := w.report()
	finished.State, finished.Output = job.Completed, &job.Output{Location: filepath.Join(t.TempDir(), "out")}
	require.NoError(t, os.WriteFile(finished.Output.Location, []byte(strings.Join(all, "\n")+"\n"), 0o600))
	require.NoError(t, os.RemoveAll(filepath.Join(w.location, "run", "parts")))
	for i, at := range append(cursors, more...) {
		rest, _ := read(s.Follow(at), finished)
		require.Equal(t, all[i+1:], append([]string{}, rest...), "from %s", at)
	}
	got, _ = read(s.Follow(jobs.FeedCursor{Session: 2}), finished)
	require.Equal(t, []string{"5", "7"}, got)
	for item, want := range map[int64]string{0: "0", 1: "1"} {
		o, found, err := s.Find(t.Context(), finished, item)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, string(o.Result))
	}
	_, _, err = s.Find(t.Context(), finished, 7)
	require.ErrorIs(t, err, errAmbiguous)
}
