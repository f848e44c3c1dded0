package activities

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// filters are what programs do with lines. What they make of a line depends on that line alone.
var filters = map[string]func(in io.Reader, out io.Writer) error{
	"copies": func(in io.Reader, out io.Writer) error {
		_, err := io.Copy(out, in)
		return err
	},
	"answers each line": func(in io.Reader, out io.Writer) error {
		return eachLine(in, func(line string) error {
			_, err := fmt.Fprintf(out, "%s\n", strings.Repeat(line, len(line)%3)) // some are empty
			return err
		})
	},
	"leaves out the last line end": func(in io.Reader, out io.Writer) error {
		all, err := io.ReadAll(in)
		_, _ = out.Write(bytes.TrimSuffix(all, []byte("\n")))
		return err
	},
	"answers at the end": func(in io.Reader, out io.Writer) error {
		all, err := io.ReadAll(in)
		for len(all) > 0 {
			n := min(7, len(all))
			_, _ = out.Write(all[:n])
			all = all[n:]
		}
		return err
	},
	"fails on a line": func(in io.Reader, out io.Writer) error {
		return eachLine(in, func(line string) error {
			if strings.Contains(line, "13") {
				return calls.Faultf(job.KindExit, "Exit", "exit 1")
			}
			_, err := io.WriteString(out, line+"\n")
			return err
		})
	},
	"answers a line twice": func(in io.Reader, out io.Writer) error {
		return eachLine(in, func(line string) error {
			if strings.Contains(line, "13") {
				line += "\n" + line
			}
			_, err := io.WriteString(out, line+"\n")
			return err
		})
	},
	"answers some lines not at all": func(in io.Reader, out io.Writer) error {
		return eachLine(in, func(line string) error {
			if strings.Contains(line, "13") {
				return nil
			}
			_, err := io.WriteString(out, line+"\n")
			return err
		})
	},
	"answers nothing": func(in io.Reader, out io.Writer) error {
		_, err := io.Copy(io.Discard, in)
		return err
	},
	"reads nothing": func(io.Reader, io.Writer) error { return nil },
	"answers before items": func(_ io.Reader, out io.Writer) error {
		_, err := io.WriteString(out, strings.Repeat("x\n", 1000))
		return err
	},
}

func eachLine(in io.Reader, fn func(line string) error) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line == "" && err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
}

// endlessly is what a program does that does not stop to answer.
func endlessly(out io.Writer, what string) error {
	for {
		if _, err := io.WriteString(out, what); err != nil {
			return err
		}
	}
}

// orderly are the filters that answer as they should.
var orderly = []string{"copies", "answers each line", "leaves out the last line end", "answers at the end"}

// outcome is what a batch has come to, on either way.
type outcome struct {
	Entry          wire.Entry
	Results, Notes string
	First          *job.FirstError
	Rest           *wire.Batch
	Settled        job.Totals
}

func (f *fixture) outcomeOf(in wire.ProcessInput) (o outcome, calls int64) {
	f.t.Helper()
	result, err := f.acts.Process(f.t.Context(), in)
	require.NoError(f.t, err)
	e := result.Entry
	if e.Bytes > 0 {
		o.Results = f.mustGet(ledger.ResultsKey(f.ref.Run, e))
	}
	if e.ErrBytes > 0 {
		o.Notes = f.mustGet(ledger.ErrorsKey(f.ref.Run, e))
	}
	e.Part = ""
	o.Entry, o.First, o.Rest = e, result.FirstError, result.Rest
	o.Settled = job.Totals{OK: result.Totals.OK, Failed: result.Totals.Failed, Dropped: result.Totals.Dropped, InputBytes: result.Totals.InputBytes}
	return o, result.Totals.Calls
}

// Whatever a filter does, and whatever the items are, a batch comes to the same on the short way as on the usual one.
func TestProcess_BothWays(t *testing.T) {
	t.Parallel()
	for name, do := range filters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, rand.Uint64())
			for range 12 {
				f := setup(t, "in."+[]string{"txt", "jsonl"}[random.IntN(2)], randomItems(random))
				f.spec.BatchItems, f.spec.MaxItem = 1000, int64(40+random.IntN(400))
				f.spec.OnError = []string{job.OnErrorRecord, job.OnErrorRecord, job.OnErrorDrop, job.OnErrorStop}[random.IntN(4)]
				batches := f.plan()
				if len(batches) == 0 {
					continue
				}
				in := f.input(batches[0])
				in.OnError, in.Calls.Attempts = f.spec.OnError, 1+random.IntN(2)
				size := calls.CallSize{Items: 1 + random.IntN(40), Bytes: 1 << 20}
				f.serve(&callstest.Filter{Do: do, Size: size}, Options{})
				want, _ := f.outcomeOf(in)
				filter := &callstest.Filter{Do: do, Size: size, Whole: true}
				f.serve(filter, Options{})
				got, calls := f.outcomeOf(in)
				require.Equal(t, want, got)
				require.EqualValues(t, 1, filter.Wholes())
				if slices.Contains(orderly, name) && in.OnError != job.OnErrorStop {
					require.EqualValues(t, 1, calls, "the short way is taken to its end")
				}
			}
		})
	}
}

// Two stages of a pipeline come to the same, too, and what a filter between them drops, or fails on.
func TestProcess_BothWaysOfStages(t *testing.T) {
	t.Parallel()
	for name, do := range filters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, rand.Uint64())
			for range 6 {
				p := newPipeline(t, []job.Stage{{Name: "a", Pool: "pool"}, {Name: "b", Pool: "pool"}}, nil,
					"in."+[]string{"txt", "jsonl"}[random.IntN(2)], randomItems(random))
				p.spec.BatchItems, p.spec.MaxItem = 1000, int64(40+random.IntN(400))
				batches := p.plan()
				size := calls.CallSize{Items: 1 + random.IntN(40), Bytes: 1 << 20}
				splits := random.Uint64()
				through := func(whole bool) (results []string, totals job.Totals) {
					p.serve(&callstest.Filter{Do: do, Size: size, Whole: whole}, Options{})
					entries, totals, left := p.run(rand.New(rand.NewPCG(splits, 0)), slices.Clone(batches), math.MaxInt)
					require.Empty(t, left)
					slices.SortFunc(entries, func(a, b wire.Entry) int { return cmp.Compare(a.First, b.First) })
					var output strings.Builder
					for _, e := range entries {
						output.WriteString(p.output(e))
					}
					return []string{output.String(), p.notes(entries)}, job.Totals{
						OK: totals.OK, Failed: totals.Failed, Dropped: totals.Dropped, Between: totals.Between, InputBytes: totals.InputBytes,
					}
				}
				want, counted := through(false)
				got, counts := through(true)
				require.Equal(t, want, got)
				require.Equal(t, counted, counts)
			}
		})
	}
}

// Each stage of a pipeline takes the short way.
func TestProcess_ShortWayOfStages(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, []job.Stage{{Name: "a", Pool: "pool"}, {Name: "b", Pool: "pool"}}, nil, "in.txt", "1\n2\n3\n")
	p.spec.BatchItems = 3
	filter := &callstest.Filter{Do: filters["copies"], Whole: true}
	p.serve(filter, Options{})
	entries, totals, left := p.run(jobtest.Seeded(t, 0), p.plan(), math.MaxInt)
	require.Empty(t, left)
	require.Len(t, entries, 1)
	require.Equal(t, "1\n2\n3\n", p.output(entries[0]))
	require.EqualValues(t, 2, totals.Calls)
	require.EqualValues(t, 2, filter.Wholes())
}

// notes returns the error records of entries, without the offsets of results, which are of a part.
func (f *fixture) notes(entries []wire.Entry) string {
	var all strings.Builder
	for _, e := range entries {
		if e.ErrBytes > 0 {
			all.WriteString(f.mustGet(ledger.ErrorsKey(f.ref.Run, e)))
		}
	}
	return offsets.ReplaceAllString(all.String(), "")
}

var offsets = regexp.MustCompile(`"at":\d+,?`)

// randomItems returns lines, of which some are blank, no JSON, or long.
func randomItems(random *rand.Rand) string {
	var b strings.Builder
	for i := range random.IntN(300) {
		switch random.IntN(40) {
		case 0:
			b.WriteString("  ")
		case 1:
			b.WriteString("{bad")
		case 2:
			fmt.Fprintf(&b, "%q", strings.Repeat("long", 5+random.IntN(100)))
		case 3:
			b.WriteString("\"\xff\"")
		default:
			fmt.Fprintf(&b, "%d", i)
		}
		b.WriteString([]string{"\n", "\n", "\n", "\r\n"}[random.IntN(4)])
	}
	return strings.TrimSuffix(b.String(), []string{"", "\n"}[random.IntN(2)])
}

// One call has all items of a batch, and its results go to the part while it answers: nobody holds them.
func TestProcess_ShortWay(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("some text\n", 100_000))
	f.spec.BatchItems = 100_000
	filter := &callstest.Filter{Do: filters["copies"], Whole: true}
	f.serve(filter, Options{})
	result, err := f.acts.Process(t.Context(), f.input(f.plan()[0]))
	require.NoError(t, err)
	require.EqualValues(t, 1, filter.Wholes())
	require.EqualValues(t, 1, result.Totals.Calls)
	require.EqualValues(t, 100_000, result.Totals.CallMax)
	require.EqualValues(t, 100_000, result.Totals.OK)
	require.Equal(t, strings.Repeat("some text\n", 100_000), f.output(result.Entry))
}

// A filter that answers without a look at its lines is taken at its word, but not about items that it was not given.
func TestProcess_ShortWayUnread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		onError, answer string
		calls           int64
	}{
		{job.OnErrorRecord, "x\nx\n", 1},
		{job.OnErrorRecord, "x\nx\nx\n", 0},
		{job.OnErrorStop, "x\nx\nx\n", 0}, // the last one has not been looked at
	} {
		t.Run(test.onError+" "+test.answer, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", "1\n2\nbad\n")
			f.spec.BatchItems, f.spec.OnError = 3, test.onError
			in := f.input(f.plan()[0])
			in.OnError = test.onError
			do := func(_ io.Reader, out io.Writer) error {
				_, err := io.WriteString(out, test.answer)
				return err
			}
			f.serve(&callstest.Filter{Do: do}, Options{})
			want, _ := f.outcomeOf(in)
			f.serve(&callstest.Filter{Do: do, Whole: true}, Options{})
			got, calls := f.outcomeOf(in)
			require.Equal(t, want, got)
			require.Equal(t, test.calls, calls)
		})
	}
}

// An answer without end is given up, and so is a line without end.
func TestProcess_ShortWayEndless(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]string{"lines": "x\n", "a line": strings.Repeat("x", 1<<20)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.txt", "1\n2\n3\n")
			f.spec.BatchItems = 3
			begun := false
			filter := &callstest.Filter{Whole: true, Do: func(in io.Reader, out io.Writer) error {
				if !begun {
					begun = true
					return endlessly(out, what)
				}
				return filters["copies"](in, out)
			}}
			f.serve(filter, Options{})
			result, err := f.acts.Process(t.Context(), f.input(f.plan()[0]))
			require.NoError(t, err)
			require.EqualValues(t, 1, filter.Wholes())
			require.Equal(t, "1\n2\n3\n", f.output(result.Entry))
		})
	}
}

// A batch whose short way comes to nothing takes the usual one, and later batches do so at once for a while.
func TestProcess_ShortWayDistrusted(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("13\n", 20))
	f.spec.BatchItems = 1
	filter := &callstest.Filter{Do: filters["fails on a line"], Whole: true}
	f.serve(filter, Options{})
	var tried []int64
	for i, b := range f.plan() {
		before := filter.Wholes()
		result, err := f.acts.Process(t.Context(), f.input(b))
		require.NoError(t, err)
		require.EqualValues(t, 1, result.Totals.Failed)
		if filter.Wholes() > before {
			tried = append(tried, int64(i))
		}
	}
	require.Equal(t, []int64{0, 2, 6, 14}, tried)
}

// A filter that asks to slow down is called again as usual: how long its items wait is decided there.
func TestProcess_ShortWaySlowsDown(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", "1\n2\n3\n")
	f.spec.BatchItems = 3
	asked := false
	filter := &callstest.Filter{Whole: true, Do: func(in io.Reader, out io.Writer) error {
		if !asked {
			asked = true
			return &calls.SlowDownError{After: time.Hour}
		}
		return filters["copies"](in, out)
	}}
	f.serve(filter, Options{})
	result, err := f.acts.Process(t.Context(), f.input(f.plan()[0]))
	require.NoError(t, err)
	require.Equal(t, "1\n2\n3\n", f.output(result.Entry))
	require.Zero(t, result.Totals.Failed)
}

// A batch ends on the short way as on the usual one if it is to end: with nothing done, and all of it as its rest.
func TestProcess_ShortWayEnds(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", jobtest.Lines(50))
	f.spec.BatchItems = 50
	filter := &callstest.Filter{Whole: true, Do: func(in io.Reader, out io.Writer) error {
		_, _ = io.WriteString(out, "half of an ans")
		return calls.ErrEnded
	}}
	f.serve(filter, Options{})
	batch := f.plan()[0]
	result, err := f.acts.Process(t.Context(), f.input(batch))
	require.NoError(t, err)
	require.Equal(t, &batch, result.Rest)
	require.Zero(t, result.Entry.Count)
	require.Zero(t, result.Entry.Bytes)
	require.Empty(t, f.keys("run-1/parts"))
}

// If the program cannot be started, the batch gives its items back, and none has failed.
func TestProcess_ShortWayUnbegun(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", jobtest.Lines(50))
	f.spec.BatchItems = 50
	filter := &callstest.Filter{Whole: true, Do: func(io.Reader, io.Writer) error {
		return &calls.UnbegunError{Err: errors.New("no processes")}
	}}
	f.serve(filter, Options{})
	batch := f.plan()[0]
	result, err := f.acts.Process(t.Context(), f.input(batch))
	require.NoError(t, err)
	require.Equal(t, &batch, result.Rest)
	require.Contains(t, result.Unbegun, "no processes")
}
