package calls

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestAnswer_Outcomes(t *testing.T) {
	t.Parallel()
	var a Answer
	for range 3 { // buffers are used again
		a.Reset()
		a.Line([]byte("one"))
		a.Line(nil)
		require.NoError(t, encode(t, &a, map[string]any{"html": "<&>", "n": 1.5}))
		a.Drop()
		a.Fail(&Fault{Kind: job.KindError}, 2)
		require.NoError(t, encode(t, &a, nil))
		require.Equal(t, 6, a.Len())
		require.Equal(t, "one\n\n{\"html\":\"<&>\",\"n\":1.5}\nnull\n", string(a.Buf), "null is a result like any other (B8)")
		require.Equal(t, 2, a.Special)
		require.True(t, outcomes(&a)[3].Drop)
		require.EqualValues(t, 2, outcomes(&a)[4].Tries)
	}
}

// encode adds a result as a handler does.
func encode(t *testing.T, a *Answer, v any) error {
	t.Helper()
	return encodeAs(t, a, v, codec.Standard)
}

func encodeAs(t *testing.T, a *Answer, v any, as codec.Codec) error {
	t.Helper()
	m := StartWatch(t.Context(), WatchLimits{})
	defer m.Stop()
	lane := m.Lane()
	defer lane.Close()
	c := &Call{Answer: a, lane: lane}
	a.admit(c)
	c.Begin()
	return c.Encode(v, as)
}

// Handlers of one worker may differ in their codecs: those that Stateful makes.
func TestAnswer_EncodeWithAnotherCodec(t *testing.T) {
	t.Parallel()
	var a Answer
	for _, as := range []codec.Codec{codec.Standard, noCodec{}, codec.Standard} {
		require.NoError(t, encodeAs(t, &a, 1, as))
	}
	require.Equal(t, "1\nnone\n1\n", string(a.Buf))
}

type noCodec struct{}

func (noCodec) Unmarshal([]byte, any) error          { return nil }
func (noCodec) NewEncoder(w io.Writer) codec.Encoder { return noEncoder{w} }

type noEncoder struct{ w io.Writer }

func (noEncoder) Clean() bool { return false }

func (e noEncoder) Encode(any) error {
	_, err := e.w.Write([]byte("none\n"))
	return err
}

// outcomes are the outcomes item by item.
func outcomes(a *Answer) []Span {
	var all []Span
	a.Each(func(o Span) { all = append(all, o) })
	return all
}

func TestAnswer_EncodeFails(t *testing.T) {
	t.Parallel()
	var a Answer
	a.Line([]byte("before"))
	require.ErrorContains(t, encode(t, &a, make(chan int)), "encoding the result")
	require.ErrorContains(t, encode(t, &a, []any{"begun", make(chan int)}), "encoding the result")
	require.NoError(t, encode(t, &a, "after"))
	require.Equal(t, 2, a.Len())
	require.Equal(t, "before\n\"after\"\n", string(a.Buf))
}

func TestAnswer_Lines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"none", "", nil},
		{"one", "a\n", []string{"a\n"}},
		{"without an end", "a\nb", []string{"a\n", "b\n"}},
		{"empty ones", "\n\n", []string{"\n", "\n"}},
		{"carriage returns stay", "a\r\nb\r\n", []string{"a\r\n", "b\r\n"}},
		{"many", strings.Repeat("line\n", 100_000), slices.Repeat([]string{"line\n"}, 100_000)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var a Answer
			a.Line([]byte("before"))
			read := func() Unaccepted {
				lines, err := a.ReadLines(iotest.HalfReader(strings.NewReader(test.text)), 2, 1<<20)
				require.NoError(t, err)
				require.Equal(t, 1, a.Len(), "what has been read is not an outcome yet")
				return lines
			}
			for _, wrong := range []int{len(test.want) - 1, len(test.want) + 1} {
				before := a.mark()
				var fault *Fault
				require.ErrorAs(t, a.Accept(read(), wrong), &fault)
				require.Equal(t, job.KindLength, fault.Kind)
				require.Equal(t, 1, a.Len(), "nothing is added")
				a.undo(before)
			}
			require.NoError(t, a.Accept(read(), len(test.want)))
			a.Drop()
			var got []string
			for _, o := range outcomes(&a)[1:] {
				if !o.Drop {
					got = append(got, string(a.Buf[o.start:o.End]))
				}
			}
			require.Equal(t, test.want, got)
			require.Equal(t, len(test.want)+2, a.Len())
		})
	}
}

// No answer can exhaust a worker's memory.
func TestAnswer_TooManyBytes(t *testing.T) {
	t.Parallel()
	var a Answer
	_, err := a.ReadLines(strings.NewReader(strings.Repeat("x", 1<<20)), 2, 1<<20)
	require.NoError(t, err)
	a.Reset()
	_, err = a.ReadLines(endless{}, 2, 1<<20)
	var fault *Fault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, job.KindLength, fault.Kind)
	require.Less(t, cap(a.Buf), 8<<20)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAnswer_ReadFails(t *testing.T) {
	t.Parallel()
	var a Answer
	_, err := a.ReadLines(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab"))), 2, 1<<20)
	require.ErrorContains(t, err, "reading the answer")
	_, err = a.ReadLines(iotest.ErrReader(os.ErrDeadlineExceeded), 2, 1<<20)
	require.NoError(t, err, "whoever holds the other end open after the process has ended is not waited for")
}

func TestAnswer_Undo(t *testing.T) {
	t.Parallel()
	var a Answer
	a.Line([]byte("kept"))
	a.Drop()
	before := a.mark()
	a.Line([]byte("given up"))
	a.Drop()
	a.Fail(&Fault{}, 1)
	lines, err := a.ReadLines(strings.NewReader("a\nb\n"), 2, 100)
	require.NoError(t, err)
	require.NoError(t, a.Accept(lines, 2))
	require.Equal(t, 7, a.Len())
	a.undo(before)
	require.Equal(t, 2, a.Len())
	require.Equal(t, 1, a.Special)
	require.Equal(t, "kept\n", string(a.Buf))
	require.Len(t, outcomes(&a), 2)
}

// 14.1: outcomes are counted as they come, lines of a filter too, those of a call that fails are taken back, and
// recorded ones stay.
func TestAnswer_Live(t *testing.T) {
	t.Parallel()
	var live Live
	a := Answer{Live: &live}
	counts := func() []int64 {
		answered, failed := live.Counts()
		return []int64{answered, failed}
	}
	a.Line([]byte("1"))
	a.Fail(&Fault{Kind: job.KindError}, 1)
	require.Equal(t, []int64{2, 1}, counts())
	a.Reset() // they are recorded
	require.Equal(t, []int64{2, 1}, counts())

	before := a.mark()
	lines, err := a.ReadLines(strings.NewReader("a\nb\nc\n"), 10, 100)
	require.NoError(t, err)
	require.Equal(t, []int64{5, 1}, counts(), "lines that are not outcomes yet")
	require.NoError(t, a.Accept(lines, 3))
	require.Equal(t, []int64{5, 1}, counts())
	a.undo(before)
	require.Equal(t, []int64{2, 1}, counts())
	_, err = a.ReadLines(strings.NewReader("a\nb\n"), 10, 100)
	require.NoError(t, err)
	a.keep() // the call has failed
	require.Equal(t, []int64{2, 1}, counts())
}
