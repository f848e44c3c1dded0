package inputs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

const testFlush = time.Second

// flow is a standard input of which a page after the other is planned, while it is written.
type flow struct {
	t      *testing.T
	dir    store.Dir
	inputs *Inputs
	in     wire.PlanInput
	to     *io.PipeWriter
	pages  []flowPage
}

type flowPage struct {
	at      time.Time
	batches []wire.Batch
	wire.PlanResult
}

// newFlow makes one below root. A test in a bubble must not make its directory there.
func newFlow(t *testing.T, root, format string) *flow {
	t.Helper()
	dir, err := (&store.Access{}).Open(t.Context(), root)
	require.NoError(t, err)
	from, to := io.Pipe()
	f := &flow{t: t, dir: dir, inputs: New(&store.Access{}, from), to: to}
	f.in = wire.PlanInput{
		Ref: wire.Ref{Job: "job", Run: "run"}, Batches: 16,
		Spec: job.Spec{Files: &job.Files{Input: []string{job.StandardInput}, Flush: testFlush}, Format: format}.WithDefaults(),
	}
	return f
}

// plan plans the next page. It returns the error of an attempt that failed, after which it can be called again.
func (f *flow) plan(ctx context.Context) error {
	result, err := f.inputs.Plan(ctx, f.dir, f.in, f.inputs)
	if err != nil {
		return err
	}
	batches, err := wire.DecodePage(result.Page)
	require.NoError(f.t, err)
	f.pages = append(f.pages, flowPage{time.Now(), batches, result})
	f.in.From = result.Next
	if result.Sources != "" {
		f.in.Ref.Sources = result.Sources
	}
	return nil
}

func (f *flow) last() *flowPage { return &f.pages[len(f.pages)-1] }

// content is what the batches of all pages hold, which must tile the input.
func (f *flow) content() string {
	f.t.Helper()
	table, err := f.inputs.Table(f.t.Context(), f.dir, f.in.Ref.Sources)
	require.NoError(f.t, err)
	var all bytes.Buffer
	next := wire.Batch{Offset: table.Sources[0].Start}.Sealed()
	for _, page := range f.pages {
		for _, b := range page.batches {
			require.Equal(f.t, next.First, b.First)
			require.Equal(f.t, next.Offset, b.Offset)
			_, err := io.Copy(&all, OpenSpool(f.t.Context(), f.dir, table.Sources[0].Spool, b.Offset, b.Length))
			require.NoError(f.t, err)
			next = b.After(b.Count, b.Length)
		}
	}
	return all.String()
}

// Items are planned while others are still to come, whatever the format.
func TestStdin_PlansWhatHasCome(t *testing.T) {
	t.Parallel()
	for format, items := range map[string][]string{
		"text":  {"1\n", "a\n", "b\nc\n"},
		"jsonl": {"{\"a\":1}\n", "[1]\n[2]\n", "3\n"},
		"json":  {"{\"a\":\n1}\n", "{\"b\":2} {}\n", "\"c\"\n"},
		"csv":   {"a,b\n1,\"2\n3\"\n", "4,5\n", "6,7\n8,9\n"},
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f := newFlow(t, root, format)
				defer f.inputs.Close()
				for i, item := range items {
					written := time.Now()
					go io.WriteString(f.to, item)
					require.NoError(t, f.plan(t.Context()))
					require.True(t, f.last().Waiting)
					require.Equal(t, testFlush, f.last().at.Sub(written), "page %d", i)
				}
				require.NoError(t, f.to.Close())
				require.NoError(t, f.plan(t.Context()))
				require.True(t, f.last().Done)
				require.True(t, strings.HasSuffix(strings.Join(items, ""), strings.TrimSpace(f.content())+"\n"))
			})
		})
	}
}

// Half an item waits for its end, however long that takes, and holds nothing else up.
func TestStdin_HalfAnItem(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, root, "text")
		defer f.inputs.Close()
		go func() {
			_, _ = io.WriteString(f.to, "a\nb")
			time.Sleep(time.Hour)
			_, _ = io.WriteString(f.to, "c")
			time.Sleep(time.Hour)
			_, _ = io.WriteString(f.to, "d\n")
			_ = f.to.Close()
		}()
		began := time.Now()
		require.NoError(t, f.plan(t.Context()))
		require.Equal(t, testFlush, time.Since(began))
		require.EqualValues(t, 1, f.last().Next.Item)
		require.NoError(t, f.plan(t.Context()))
		require.Equal(t, 2*time.Hour, time.Since(began), "nothing is waited for behind the end")
		require.True(t, f.last().Done)
		require.Equal(t, "a\nbcd\n", f.content())
	})
}

// However a standard input comes, each of its items is planned once, and soon, also if attempts fail or other planners
// go on.
func TestStdin_AnyFlow(t *testing.T) {
	t.Parallel()
	seeds := 60
	if testing.Short() {
		seeds = 20
	}
	for range seeds {
		seed := rand.Uint64()
		root := t.TempDir()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { anyFlow(t, root, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func anyFlow(t *testing.T, root string, random *rand.Rand) {
	f := newFlow(t, root, "text")
	defer f.inputs.Close()
	f.in.Batches = 1 + random.IntN(20)
	if random.IntN(2) == 0 {
		f.in.Spec.BatchItems = 1 + random.Int64N(10)
	}
	var written strings.Builder
	var came []time.Time                                  // when each item was whole
	attempts := rand.New(rand.NewPCG(random.Uint64(), 0)) // of this goroutine alone
	go func() {
		defer f.to.Close()
		for range 1 + random.IntN(30) {
			time.Sleep(time.Duration(random.Int64N(int64(2 * testFlush))))
			var piece strings.Builder
			for range random.IntN(1 + 1<<random.IntN(9)) {
				piece.WriteByte("ab\n"[random.IntN(3)])
			}
			before := strings.Count(lines(written.String()), "\n")
			written.WriteString(piece.String())
			for range strings.Count(lines(written.String()), "\n") - before {
				came = append(came, time.Now())
			}
			_, _ = io.WriteString(f.to, piece.String())
		}
	}()
	failed := 0
	for len(f.pages) == 0 || !f.last().Done {
		ctx, cancel := context.WithCancel(t.Context())
		if attempts.IntN(4) == 0 {
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(attempts.Int64N(int64(3*testFlush))))
		}
		err := f.plan(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			failed++
		}
		if attempts.IntN(4) == 0 { // another planner goes on
			f.inputs.mu.Lock()
			f.inputs.dropPlanner(f.in.Ref.Run)
			f.inputs.mu.Unlock()
		}
	}
	require.Equal(t, lines(written.String()+"\n"), lines(f.content()+"\n"))
	for _, page := range f.pages {
		require.False(t, page.Waiting && (page.Done || len(page.batches) == 0))
		for _, b := range page.batches {
			for item := b.First; item < b.First+b.Count && item < int64(len(came)); item++ {
				require.LessOrEqual(t, page.at.Sub(came[item]), testFlush*time.Duration(2+failed), "item %d", item)
			}
		}
	}
}

// lines are those of a text that are whole and not blank.
func lines(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" && strings.HasSuffix(line, "\n") {
			all.WriteString(line)
		}
	}
	return all.String()
}
