package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/feedstore"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// large answers an item "WORD BYTES" with so many bytes that begin with the word; "bad …" fails and "drop …" is
// dropped.
func large(_ context.Context, text string) (string, error) {
	var word string
	var size int
	if _, err := fmt.Sscan(text, &word, &size); err != nil {
		return "", err
	}
	switch word {
	case "bad":
		return "", errors.New("it is bad")
	case "drop":
		return "", worker.Drop
	}
	return inflated(word, size), nil
}

func inflated(word string, size int) string { return word + strings.Repeat(".", size-len(word)) }

// reader makes a client that reads the feed's store.
func (s *server) reader(t *testing.T, name string, o feedstore.Options) *jobs.Feed[string, string] {
	t.Helper()
	results := feedstore.New(o)
	feed := jobs.NewFeed[string, string](s.client, name, jobs.FeedOptions{Store: results})
	t.Cleanup(func() {
		feed.Release()
		require.NoError(t, results.Close())
	})
	return feed
}

// F3, F9: results of any size reach their callers, alone and in batches with others, failed and dropped ones among
// them; a client that cannot read the store is told so.
func TestFeed_F9_LargeResults(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j, without := s.newFeed(t, "feed-large")
	j.on(large)
	j.start(jobs.StartOptions{})
	feed := s.reader(t, j.spec.Name, feedstore.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for _, size := range []int{100, 64 << 10, 1 << 20, 16<<20 - 2} { // the largest, with its quotes
		start := time.Now()
		got, err := feed.Call(ctx, fmt.Sprint("one ", size))
		require.NoError(t, err, size)
		require.Equal(t, inflated("one", size), got, size)
		t.Logf("a result of %d bytes in %v", size, time.Since(start).Round(time.Millisecond))
	}
	_, err := feed.Call(ctx, fmt.Sprint("one ", 20<<20)) // B12
	require.Equal(t, "TooLarge", isCode(t, err, jobs.CodeItem).Failure.Error.Type)
	_, err = without.Call(ctx, "one 100000")
	require.NoError(t, isCode(t, err, jobs.CodeStored).Err)
	require.ErrorContains(t, err, "this client has no store")
	denied := s.reader(t, j.spec.Name, feedstore.Options{Allow: []string{t.TempDir()}})
	_, err = denied.Call(ctx, "one 100000")
	var refused *store.DeniedError
	isCode(t, err, jobs.CodeStored)
	require.ErrorAs(t, err, &refused)

	const n = 60
	word := func(i int) string {
		switch {
		case i%10 == 3:
			return "bad"
		case i%10 == 7:
			return "drop"
		}
		return fmt.Sprint("item-", i)
	}
	var items []string
	for i := range n {
		items = append(items, fmt.Sprint(word(i), " ", 20_000+i))
	}
	index := 0
	for r, err := range feed.Stream(ctx, slices.Values(items), jobs.StreamOptions{InPlace: true}) {
		switch word(index) {
		case "bad":
			require.Equal(t, "it is bad", isCode(t, err, jobs.CodeItem).Failure.Error.Message)
		case "drop":
			require.NoError(t, err)
			require.True(t, r.Dropped)
		default:
			require.NoError(t, err)
			require.Equal(t, inflated(word(index), 20_000+index), r.Out)
		}
		index++
	}
	require.Equal(t, n, index)

	index = 0
	for r, err := range feed.Stream(ctx, slices.Values(slices.Repeat([]string{"x 100000"}, 100)), jobs.StreamOptions{}) { // left early
		require.NoError(t, err)
		require.Len(t, r.Out, 100_000)
		if index++; index == 3 {
			break
		}
	}
	s.awaitIdle(t, j.spec.Name)
	require.NoError(t, feed.Close(ctx))
	j.completes()
}

// Results of which a leg does not keep all, because those of a client that is gone take the room, are found when they
// are committed.
func TestFeed_F9_ResultsThatAreNotKept(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j, without := s.newFeed(t, "feed-notkept")
	j.on(large)
	j.spec.BatchItems = 1
	j.spec.Feed.CapacityBytes = 1 << 20 // a leg keeps as many bytes of results
	j.start(jobs.StartOptions{})
	feed := s.reader(t, j.spec.Name, feedstore.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	ghost := &caller{t: t, s: s, name: "ghost", job: j.spec.Name}
	require.Eventually(t, func() bool { return ghost.open() == 1 }, 10*time.Minute, 10*time.Millisecond)
	items := slices.Repeat([]json.RawMessage{json.RawMessage(`"ghost 60000"`)}, 18)
	_, err := ghost.ask(ctx, 1, wire.Exchange{Items: items, Want: true})
	require.NoError(t, err)
	s.awaitIdle(t, j.spec.Name)
	_, err = without.Call(ctx, "without 50000")
	isCode(t, err, jobs.CodeStored)
	start := time.Now()
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			word := fmt.Sprint("caller", i)
			got, err := feed.Call(ctx, word+" 50000")
			assert.NoError(t, err)
			assert.Equal(t, inflated(word, 50_000), got)
		})
	}
	all.Wait()
	t.Logf("after the commit: %v", time.Since(start).Round(time.Millisecond))
	require.NoError(t, feed.Close(ctx))
	j.completes()
}

// slowStore waits before each outcome.
type slowStore struct {
	jobs.FeedStore
	reading chan struct{} // gets one when a reading begins
	release chan struct{}
}

func (s *slowStore) Outcome(ctx context.Context, at wire.StoredPart, item int64) (wire.ItemResult, error) {
	s.reading <- struct{}{}
	<-s.release
	return s.FeedStore.Outcome(ctx, at, item)
}

// F4: a reset that comes while a result is read from the store overtakes it. A feed that finishes meanwhile does not:
// its parts are gone then, and the result is read from the output.
func TestFeed_F4_ResetAndEndOvertakeStoredResults(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j, _ := s.newFeed(t, "feed-overtaken")
	j.on(large)
	j.start(jobs.StartOptions{})
	results := feedstore.New(feedstore.Options{})
	slow := &slowStore{FeedStore: results, reading: make(chan struct{}, 100), release: make(chan struct{})}
	feed := jobs.NewFeed[string, string](s.client, j.spec.Name, jobs.FeedOptions{Store: slow})
	t.Cleanup(func() {
		feed.Release()
		require.NoError(t, results.Close())
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	type answer struct {
		out string
		err error
	}
	answers := make(chan answer, 3)
	call := func(item string) {
		go func() {
			out, err := feed.Call(ctx, item)
			answers <- answer{out, err}
		}()
	}
	await := func() {
		select {
		case <-slow.reading:
		case <-ctx.Done():
			require.FailNow(t, "the answer has not named the part")
		}
	}
	call("a 100000")
	await()
	_, err := feed.Reset(ctx)
	require.NoError(t, err)
	slow.release <- struct{}{}
	got := <-answers
	isCode(t, got.err, jobs.CodeDiscarded)

	for _, item := range []string{"b 100000", "c 200000"} {
		call(item)
		await()
	}
	require.NoError(t, feed.Close(ctx))
	j.completes()
	close(slow.release)
	var found []string
	for range 2 {
		got := <-answers
		require.NoError(t, got.err)
		found = append(found, got.out)
	}
	require.ElementsMatch(t, []string{inflated("b", 100_000), inflated("c", 200_000)}, found)
}

// F4, F11: what a feed records is read once and in order by a reader that stops and goes on at its cursor, over legs
// and runs of the job, while it runs and afterwards. A reader of one session gets its results only.
func TestFeed_F11_Results(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j, feed := s.newFeed(t, "feed-results")
	j.on(func(ctx context.Context, text string) (string, error) {
		if strings.HasSuffix(text, "5") {
			return inflated(text, 70_000), nil
		}
		return large(ctx, text+" 20")
	})
	j.start(jobs.StartOptions{})
	reader := s.reader(t, j.spec.Name, feedstore.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	follow := func(session int64) <-chan []string {
		ended := make(chan []string, 1)
		go func() {
			var got []string
			at := jobs.FeedCursor{Session: session}
			for done := false; !done; {
				done = true
				for r, err := range reader.Results(ctx, at, jobs.ResultsOptions{Every: 20 * time.Millisecond}) {
					if !assert.NoError(t, err) {
						break
					}
					got = append(got, strings.TrimRight(r.Out, "."))
					at = r.Next
					if done = len(got)%4 != 0; !done {
						var err error
						at, err = jobs.ParseFeedCursor(at.String()) // another reader goes on
						assert.NoError(t, err)
						break
					}
				}
			}
			ended <- got
		}()
		return ended
	}
	all, second := follow(0), follow(2)
	const n = 200
	var want, wantSecond []string
	for i := range n {
		text := fmt.Sprint("item-", i)
		if i%10 == 3 {
			text = "bad"
		}
		require.NoError(t, feed.PutWait(ctx, 10*time.Minute, text))
		if text != "bad" {
			want = append(want, text)
		}
		if i == 30 {
			s.awaitIdle(t, j.spec.Name)
			_, err := feed.Reset(ctx)
			require.NoError(t, err)
		}
		if i > 30 && text != "bad" {
			wantSecond = append(wantSecond, text)
		}
	}
	require.NoError(t, feed.Close(ctx))
	report := j.completes()
	require.Greater(t, report.Feed.Segments, 4)
	require.Equal(t, want, <-all)
	require.Equal(t, wantSecond, <-second)

	// The parts are in the output now: each cursor is still good.
	read := func(results iter.Seq2[jobs.RecordedResult[string], error]) (texts []string, cursors []jobs.FeedCursor) {
		for r, err := range results {
			require.NoError(t, err)
			texts, cursors = append(texts, strings.TrimRight(r.Out, ".")), append(cursors, r.Next)
		}
		return texts, cursors
	}
	texts, cursors := read(reader.Results(ctx, jobs.FeedCursor{}, jobs.ResultsOptions{Committed: true}))
	require.Equal(t, want, texts)
	for i, at := range cursors {
		texts, _ := read(reader.Results(ctx, at, jobs.ResultsOptions{}))
		require.Equal(t, want[i+1:], append([]string{}, texts...))
	}
	texts, _ = read(reader.Results(ctx, jobs.FeedCursor{Session: 2}, jobs.ResultsOptions{}))
	require.Equal(t, wantSecond, texts)
	for _, err := range feed.Results(ctx, jobs.FeedCursor{}, jobs.ResultsOptions{}) {
		isCode(t, err, jobs.CodeStored)
	}
	require.NotEmpty(t, filepath.Dir(report.Store))
}

// F4: resets that race with puts and results, small and large: a reader of a session sees what was put for it, and
// nothing else; each result is read once.
func TestFeed_F4_ResetsRaceResults(t *testing.T) {
	t.Parallel()
	s := setup(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	j, feed := s.newFeed(t, "feed-resets")
	j.on(func(ctx context.Context, text string) (string, error) {
		if strings.HasSuffix(text, "0") {
			return inflated(text, 70_000), nil
		}
		return text, nil
	})
	j.start(jobs.StartOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	const rounds = 15
	accepted := map[int64]map[string]bool{}
	for session := int64(1); session <= rounds; session++ {
		one := jobs.NewFeed[string, string](s.client, j.spec.Name, jobs.FeedOptions{Session: session})
		mine := map[string]bool{}
		accepted[session] = mine
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer one.Release()
			for i := range 40 {
				text := fmt.Sprintf("session %d item %d", session, i)
				err := one.PutWait(ctx, 10*time.Minute, text)
				if jobs.IsCode(err, jobs.CodeSession) {
					return
				}
				if !assert.NoError(t, err) {
					return
				}
				mine[text] = true
			}
		}()
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond) // the reset comes at any moment
		_, err := feed.Reset(ctx)
		require.NoError(t, err)
		<-ended
	}
	s.awaitIdle(t, j.spec.Name)
	require.NoError(t, feed.Close(ctx))
	report, err := j.wait()
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	reader := s.reader(t, j.spec.Name, feedstore.Options{})
	total := int64(0)
	for session, mine := range accepted {
		seen := map[string]bool{}
		for r, err := range reader.Results(ctx, jobs.FeedCursor{Session: session}, jobs.ResultsOptions{}) {
			require.NoError(t, err)
			text := strings.TrimRight(r.Out, ".")
			require.True(t, mine[text], "%q in session %d", text, session)
			require.False(t, seen[text], "%q twice", text)
			seen[text] = true
			total++
		}
	}
	require.Equal(t, report.OK, total)
	require.Equal(t, report.Planned, report.OK+report.Discarded)
	t.Logf("%d results, %d discarded", report.OK, report.Discarded)
}

// isCode returns the error of a feed, which has that code.
func isCode(t *testing.T, err error, code jobs.FeedCode) *jobs.FeedError {
	t.Helper()
	e, _ := errors.AsType[*jobs.FeedError](err)
	require.NotNil(t, e, "%v", err)
	require.Equal(t, code, e.Code, "%v", err)
	return e
}
