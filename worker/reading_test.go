package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// The callers of small calls read their answers themselves.
func TestReading_QuickCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.CallItems, f.options.Slots, f.batch = 1, 1, 10_000
	in := strings.Repeat("1\n", 3000)
	require.Equal(t, in, f.run(f.program("yes"), "in.jsonl", in).output)
	require.Greater(t, f.running(0).turns.Load(), int64(1000))
}

// With several calls under way at once nobody reads but the program's own goroutine.
func TestReading_Concurrency(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.CallItems, f.options.Slots, f.options.Concurrency, f.batch = 1, 1, 4, 100
	in := strings.Repeat("1\n", 1000)
	require.Equal(t, in, f.run(f.program("yes"), "in.jsonl", in).output)
	require.Zero(t, f.running(0).turns.Load())
}

// A program that misbehaves while a caller reads ends like any other.
func TestReading_BadItems(t *testing.T) {
	t.Parallel()
	for item, kind := range map[string]string{
		"exit 3": job.KindCrash, "garbage": job.KindCrash, "stranger": job.KindCrash, "big": job.KindCrash, "close": job.KindCrash,
		"scopes": job.KindCrash, "short": job.KindLength, "fail it": job.KindError, "scope 0s": job.KindExpired, "hang": job.KindExpired,
	} {
		t.Run(item, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.CallItems, f.limits.Attempts = 1, 2
			if item == "hang" {
				f.limits.Timeout = 300 * time.Millisecond
			}
			o := f.obey("1", "2", "3", item, "5", "6")
			require.Equal(t, lines(`"1"`, `"2"`, `"3"`, `"5"`, `"6"`), o.output)
			failure := o.only(t)
			require.EqualValues(t, 3, failure.Item)
			require.Equal(t, kind, failure.Kind, "%+v", failure)
		})
	}
}

// answers is a program that answers each call of one item with its number and continues with then.
func (f *fixture) answers(then string) Handler {
	return Serve(f.script(`
read hello; echo '{"type":"ready"}'; i=0
while read call; do
	case $call in *bye*) exit;; esac
	i=$((i+1)); echo '{"type":"results","id":'$i',"results":[{"value":'$i'}]}'
	` + then + `
done`))
}

// A frame that comes when no call is under way is not left until the next one.
func TestReading_BetweenCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.CallItems, f.options.Slots = 1, 1
	f.run(f.answers(`echo '{"type":"metric","name":"late","kind":"counter","value":1}'`), "in.txt", strings.Repeat("x\n", 300))
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.measured) == 300
	}, 10*time.Minute, time.Millisecond)
}

// So is the end of a program between calls: its slot has another by the time of the next one.
func TestReading_EndBetweenCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.CallItems, f.options.Slots, f.limits.Attempts = 1, 1, 1000
	o := f.run(f.answers(`[ $i = 100 ] && exit`), "in.txt", strings.Repeat("x\n", 350))
	require.Empty(t, o.failures)
	require.EqualValues(t, 350, o.totals.OK)
	f.replaced(3)
}

// A program that answers slowly after many quick answers gets the notice of a stop.
func TestReading_SlowAfterQuick(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.CallItems, f.options.Slots, f.batch = 1, 1, 1000
	f.limits.Timeout, f.limits.Attempts = 5*time.Second, 1
	items := strings.Split(strings.Repeat("a,", 500), ",")[:500]
	items = append(items, "hang", "b")
	o := f.run(f.program("yes"), "in.txt", lines(items...))
	failure := o.only(t)
	require.EqualValues(t, 500, failure.Item)
	require.Equal(t, job.KindExpired, failure.Kind)
	require.Contains(t, failure.Error.Stack, "obedient).do", "its stacks were asked for")
	require.True(t, strings.HasSuffix(o.output, "\"b\"\n"))
}

// D5: failed items without an outcome in their repetition have the tries that they have left.
func TestD5_RepetitionFails(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{ // what the program does with the second call
		"it crashes":        `exit 3`,
		"it fails half-way": `echo '{"type":"results","id":2,"results":[{"error":{"message":"2"}}],"error":{"message":"all"}}'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Slots, f.limits.ItemAttempts, f.batch = 1, 3, 3
			o := f.run(Serve(f.script(`
read hello; echo '{"type":"ready"}'; i=0
while read call; do
	i=$((i+1)); echo x >> '`+f.dir+`/calls'
	case $(grep -c x '`+f.dir+`/calls') in
	1) echo '{"type":"results","id":1,"results":[{"error":{"message":"1"}},{"value":1},{"error":{"message":"1"}}]}' ;;
	2) `+second+` ;;
	*) echo '{"type":"results","id":'$i',"results":[{"value":3}]}' ;;
	esac
done`)), "in.txt", lines("a", "b", "c"))
			require.Empty(t, o.failures)
			require.Equal(t, lines("3", "1", "3"), o.output)
		})
	}
}
