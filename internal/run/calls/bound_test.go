package calls

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestBounded(t *testing.T) {
	t.Parallel()
	short := job.Error{Type: "T", Message: "m", Stack: "s"}
	require.Equal(t, short, Bounded(short))
	full := job.Error{
		Type: strings.Repeat("t", MaxErrorType), Message: strings.Repeat("m", MaxErrorMessage), Stack: strings.Repeat("s", MaxErrorStack),
	}
	require.Equal(t, full, Bounded(full))
	for shift := range 4 { // runes of four bytes begin anywhere
		long := strings.Repeat("x", shift) + strings.Repeat("😀", 1<<20)
		got := Bounded(job.Error{Type: long, Message: long, Stack: "begin" + long + "end"})
		for s, limit := range map[string]int{got.Type: MaxErrorType, got.Message: MaxErrorMessage, got.Stack: MaxErrorStack} {
			require.True(t, utf8.ValidString(s))
			require.LessOrEqual(t, len(s), limit)
			require.Greater(t, len(s), limit-leftOutLimit-16)
		}
		require.True(t, strings.HasPrefix(got.Stack, "begin") && strings.HasSuffix(got.Stack, "end"))
		require.Contains(t, got.Stack, "bytes left out")
	}
	odd := strings.Repeat("\x80", 2*MaxErrorStack) // not UTF-8
	require.LessOrEqual(t, len(Bounded(job.Error{Stack: odd}).Stack), MaxErrorStack)
}

// B12: no outcome keeps a longer error, wherever it is from; the fault that it was made of is not changed.
func TestAnswer_FailBoundsTheError(t *testing.T) {
	t.Parallel()
	var a Answer
	long := &Fault{Kind: job.KindError, Err: job.Error{Type: strings.Repeat("T", 3<<20), Message: strings.Repeat("ä", 30<<20)}}
	a.Fail(long, 2)
	got := outcomes(&a)[0]
	require.Equal(t, Bounded(long.Err), got.Fault.Err)
	require.Equal(t, job.KindError, got.Fault.Kind)
	require.EqualValues(t, 2, got.Tries)
	require.Len(t, long.Err.Type, 3<<20)
}
