package worker

import (
	"fmt"
	"math/bits"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// sizesAtOnce are the sizes that several calls of a slot at once are shown with: how a batch is cut does not depend on
// how many there are.
var sizesAtOnce = []int{1, 7}

// B1, B3, B4, B10: whatever the size of the input and of the calls, all items come out, in order.
// The last call of a batch takes what is left; single items are handed over by themselves if there is
// such a form, otherwise as lists of one.
func showsCallSizes(t *testing.T, k kind) {
	for size, calls := range map[int][]int{
		0:       nil,
		oneItem: slices.Repeat([]int{1}, 25),
		1:       slices.Repeat([]int{1}, 25),
		7:       {7, 7, 7, 4},
		10:      {10, 10, 5},
		1000:    {25},
	} {
		if k.concurrency != 1 && !slices.Contains(sizesAtOnce, size) {
			continue
		}
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			tr := k.try(t)
			tr.options.CallItems, tr.batch = size, 1000
			tr.start()
			tr.showSizes(calls)
			tr.showWhole()
			require.Empty(t, tr.happened(slotReplaced))
		})
	}
}

// showSizes requires that a batch of 25 items is cut into these calls, nil: into whichever.
func (tr *trial) showSizes(calls []int) {
	tr.t.Helper()
	o := tr.obey(slices.Repeat([]string{"size"}, 25)...)
	require.Empty(tr.t, o.failures)
	require.Equal(tr.t, 25, strings.Count(o.output, "\n"))
	tr.requireCalls(o, 25)
	if calls == nil {
		return
	}
	var told []string
	for _, n := range calls {
		told = append(told, slices.Repeat([]string{strconv.Itoa(tr.sizeSeen(n))}, n)...)
	}
	require.Equal(tr.t, lines(told...), o.output)
	if tr.kind.chunk == 0 && tr.options.Concurrency == 1 {
		require.Equal(tr.t, calls, tr.calls)
	} else if tr.kind.chunk == 0 {
		require.ElementsMatch(tr.t, calls, tr.calls)
	}
}

// showWhole requires that inputs of 0 to 2,500 items come out as they went in.
func (tr *trial) showWhole() {
	tr.t.Helper()
	large := []int{1000, 1000, 500}
	if tr.kind.singles > 0 && (tr.callSize() == 1 || tr.kind.own) {
		large = []int{tr.kind.singles}
	}
	for _, batches := range [][]int{nil, {1}, {10}, large} {
		n := 0
		for _, b := range batches {
			n += b
		}
		items := several(n)
		o := tr.obey(items...)
		require.Empty(tr.t, o.failures)
		require.Equal(tr.t, said(tr.t, items...), o.output)
		require.EqualValues(tr.t, n, o.totals.OK)
		tr.requireCalls(o, batches...)
	}
}

// sizeSeen is the size of its call that an item sees, if the call has n items.
func (tr *trial) sizeSeen(n int) int {
	if tr.kind.alone || tr.options.CallItems == oneItem {
		return tr.kind.size
	}
	return n
}

// B4, B8, K8: whatever the items say, each has one outcome, in order.
func showsOutcomes(t *testing.T, k kind) {
	tr := k.try(t)
	tr.options.CallItems, tr.batch = 20, 50
	random := seeded(t, 42)
	type expected struct{ behaviour, item, kind string }
	specials := []expected{
		{"crashes", "exit 3", k.ends()},
		{"nulls", "null", ""},
		{"drops", "drop", ""},
		{"errors", "error of its own", job.KindError},
		{"lengths", "short", job.KindLength},
		{"whole calls", "fail oh", job.KindError},
	}
	specials = slices.DeleteFunc(specials, func(e expected) bool { return !k.can(e.behaviour) })
	items := several(200)
	want := map[int64]string{} // the kinds of the failures
	var output []string
	dropped, next := int64(0), 0
	for i := range items {
		if random.IntN(15) > 0 {
			output = append(output, strconv.Quote(items[i]))
			continue
		}
		special := specials[next%len(specials)]
		next++
		items[i] = special.item
		switch {
		case special.kind != "":
			want[int64(i)] = special.kind
		case special.item == "drop":
			dropped++
		default:
			output = append(output, special.item)
		}
	}
	require.GreaterOrEqual(t, next, len(specials), "each of them once")
	tr.start()
	o := tr.obey(items...)
	require.Equal(t, lines(output...), o.output)
	got := map[int64]string{}
	for _, f := range o.failures {
		require.NotContains(t, got, f.Item)
		got[f.Item] = f.Kind
	}
	require.Equal(t, want, got)
	require.EqualValues(t, len(want), o.totals.Failed)
	require.EqualValues(t, len(items)-len(want), o.totals.OK)
	require.Equal(t, dropped, o.totals.Dropped)
}

// B6: a call with a result too few or too many fails, and it is narrowed down to the item whose
// fault it is. The worker, and the slot's process, live on.
func showsLengths(tr *trial) {
	t := tr.t
	tr.limits.Attempts = 3
	for item, results := range map[string]int{"short": 0, "long": 2} {
		tr.calls = nil
		items := several(7)
		items[4] = item
		o := tr.obey(items...)
		require.Equal(t, said(t, slices.Delete(items, 4, 5)...), o.output)
		failure := o.only(t)
		require.EqualValues(t, 4, failure.Item)
		require.Equal(t, job.KindLength, failure.Kind, "%+v", failure)
		require.Contains(t, failure.Error.Message, fmt.Sprintf("given 1 item and answered with %d results", results))
		tr.requireNarrowed(7, failure)
		require.Zero(t, o.totals.Crashes)
	}
}

// requireNarrowed requires that it took few calls to find the one fault in a call of n items (K8).
func (tr *trial) requireNarrowed(n int, f job.Failure) {
	tr.t.Helper()
	log := bits.Len(uint(n - 1))
	if tr.options.Concurrency == 1 { // otherwise there are calls beside it
		require.LessOrEqual(tr.t, len(tr.calls)-1, 2*log+tr.limits.Attempts, "extra calls")
	}
	require.LessOrEqual(tr.t, f.Attempts, log+1+tr.limits.Attempts, "calls that failed")
}

// B6, B7: an error of a whole call is that of the item which causes it.
func showsWholeCalls(tr *trial) {
	t := tr.t
	items := several(9)
	items[3] = "fail no room on the card"
	o := tr.obey(items...)
	require.Equal(t, said(t, slices.Delete(items, 3, 4)...), o.output)
	failure := o.only(t)
	require.EqualValues(t, 3, failure.Item)
	require.Equal(t, job.KindError, failure.Kind)
	require.Equal(t, "Whole", failure.Error.Type)
	require.Equal(t, "no room on the card", failure.Error.Message)
	tr.requireNarrowed(9, failure)
	require.Empty(t, tr.happened(slotReplaced))
}

// B7, B10: an item's error keeps its type, message and stack; the calls are counted as ever.
func showsErrors(tr *trial) {
	t := tr.t
	items := several(25)
	items[12] = "error no such colour: Zoë's"
	o := tr.obey(items...)
	require.Equal(t, said(t, slices.Delete(slices.Clone(items), 12, 13)...), o.output)
	failure := o.only(t)
	require.EqualValues(t, 12, failure.Item)
	require.JSONEq(t, said(t, items[12]), string(failure.Input))
	require.Equal(t, job.KindError, failure.Kind)
	require.Equal(t, "Bad", failure.Error.Type)
	require.Equal(t, "no such colour: Zoë's", failure.Error.Message)
	require.Contains(t, failure.Error.Stack, tr.kind.stack)
	require.Equal(t, 1, failure.Attempts)
	require.Zero(t, o.totals.Retries)
	tr.requireCalls(o, 25)
	require.Empty(t, tr.happened(slotReplaced))
}

// An item with its own error is tried as often as the options say, the others once.
func showsItemAttempts(tr *trial) {
	t := tr.t
	tr.limits.ItemAttempts = 3
	never, third, once := filepath.Join(tr.dir, "never"), filepath.Join(tr.dir, "third"), filepath.Join(tr.dir, "once")
	o := tr.obey("a", "tally "+never, "b", "third "+third, "drop", "c")
	require.Equal(t, said(t, "a", "b", "third "+third, "c"), o.output)
	failure := o.only(t)
	require.EqualValues(t, 1, failure.Item)
	require.Equal(t, 3, failure.Attempts)
	require.Equal(t, 3, count(never))
	require.Equal(t, 3, count(third))
	tr.limits.ItemAttempts = 1
	require.Equal(t, 1, tr.obey("tally "+once).only(t).Attempts)
	require.Equal(t, 1, count(once))
	showsTriesOverCuts(tr)
}

// W3: a rule of the job says how often what fails in one way is tried, an item or a call as a whole, and what is final at
// once; nothing else is tried again.
func showsRules(tr *trial) {
	t := tr.t
	defer func() { tr.limits.Retry, tr.limits.Final, tr.limits.Attempts = nil, "", 1 }()
	file := func(name string) string { return filepath.Join(tr.dir, "by rule "+name) }
	own := tr.kind.can("item attempts") || tr.kind.alone // an item's failure is its own
	const halvings = 2                                   // of three items

	tr.limits.Retry = []job.Retry{"type=Other attempts=9", "kind=error,exit,crash attempts=3 backoff=1ms"}
	o := tr.obey("a", "third "+file("third"), "b")
	require.Empty(t, o.failures)
	require.Equal(t, said(t, "a", "third "+file("third"), "b"), o.output)
	require.Equal(t, 3, count(file("third")))
	never := file("never")
	failure := tr.obey("a", "tally "+never, "b").only(t)
	require.EqualValues(t, 1, failure.Item)
	require.GreaterOrEqual(t, failure.Attempts, 3)
	if own {
		require.Equal(t, 3, count(never))
	} else {
		require.LessOrEqual(t, count(never), 3+halvings, "an item that is found has no further tries")
	}

	tr.limits.Retry, tr.limits.Final, tr.limits.Attempts, tr.limits.ItemAttempts = nil, "type=*", 5, 5
	once, alone := file("once"), file("alone")
	failure = tr.obey("a", "tally "+once, "b").only(t)
	require.LessOrEqual(t, failure.Attempts, count(once))
	if own {
		require.Equal(t, 1, count(once))
	} else {
		require.LessOrEqual(t, count(once), 1+halvings)
	}
	require.Equal(t, 1, tr.obey("tally "+alone).only(t).Attempts)
	require.Equal(t, 1, count(alone))

	tr.limits.Final, tr.limits.Attempts, tr.limits.ItemAttempts = "type=Other", 1, 1
	require.Equal(t, 1, tr.obey("tally "+file("other")).only(t).Attempts, "no rule is about it")
}

// D5: what an item has left of its tries goes on with the batch's rest, wherever the batch is cut.
func showsTriesOverCuts(tr *trial) {
	t := tr.t
	tr.limits.ItemAttempts, tr.limits.Backoff, tr.slice = 3, 120*time.Millisecond, time.Millisecond
	defer func() { tr.limits.Backoff, tr.slice = time.Millisecond, 0 }()
	never, third := filepath.Join(tr.dir, "never again"), filepath.Join(tr.dir, "third again")
	o := tr.obey("a", "third "+third, "tally "+never)
	require.Equal(t, said(t, "a", "third "+third), o.output)
	require.Equal(t, 3, o.only(t).Attempts)
	require.Equal(t, 3, count(never))
	require.Equal(t, 3, count(third))
}

// B8: null is a result.
func showsNulls(tr *trial) {
	t := tr.t
	o := tr.obey("a", "null", "null", "b")
	require.Empty(t, o.failures)
	require.Equal(t, lines(`"a"`, "null", "null", `"b"`), o.output)
	require.EqualValues(t, 4, o.totals.OK)
	require.Zero(t, o.totals.Dropped)
}

// B8: an item may have no result, which is ok.
func showsDrops(tr *trial) {
	t := tr.t
	o := tr.obey("drop", "a", "drop", "drop", "b")
	require.Empty(t, o.failures)
	require.Equal(t, said(t, "a", "b"), o.output)
	require.EqualValues(t, 5, o.totals.OK)
	require.EqualValues(t, 3, o.totals.Dropped)
	require.Equal(t, said(t), tr.obey("drop").output)
}

// K7: a panic is its item's error, with its stack. The process lives on.
func showsPanics(tr *trial) {
	t := tr.t
	items := several(9)
	items[7] = "panic out of range"
	o := tr.obey(items...)
	require.Equal(t, said(t, slices.Delete(items, 7, 8)...), o.output)
	failure := o.only(t)
	require.EqualValues(t, 7, failure.Item)
	require.Equal(t, job.KindError, failure.Kind)
	require.Equal(t, "panic", failure.Error.Type)
	require.Equal(t, "out of range", failure.Error.Message)
	require.Contains(t, failure.Error.Stack, "worker.obey(")
	require.Zero(t, o.totals.Crashes)
	require.Empty(t, tr.happened(slotReplaced))
}

// serverPort is that of a server of one test.
var serverPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// B9: a slot that runs four calls at once, or as many as it finds useful, has the outcomes of one that runs one.
func showsConcurrency(t *testing.T, k kind) {
	specials := []struct{ behaviour, item string }{
		{"nulls", "null"}, {"drops", "drop"}, {"errors", "error oh"}, {"lengths", "short"}, {"whole calls", "fail oh"}, {"crashes", "exit 3"},
	}
	random := seeded(t, 9)
	items := several(120)
	for i := range items {
		special := specials[random.IntN(len(specials))]
		if k.can(special.behaviour) && random.IntN(10) == 0 {
			items[i] = special.item
		}
	}
	outcomes := map[int]outcome{}
	for _, concurrency := range []int{1, 4, autoConcurrency} {
		tr := k.try(t)
		tr.options.Slots, tr.options.Concurrency = 1, concurrency
		tr.batch = 10
		tr.start()
		o := tr.obey(items...)
		slices.SortFunc(o.failures, func(a, b job.Failure) int { return int(a.Item - b.Item) })
		for i := range o.failures {
			f := &o.failures[i]
			f.Source, f.Attempts, f.Error.Stack = "", 0, ""
			f.Error.Message = serverPort.ReplaceAllString(f.Error.Message, "127.0.0.1")
		}
		outcomes[concurrency] = o
	}
	one := outcomes[1]
	for concurrency, more := range outcomes {
		require.Equal(t, one.output, more.output, concurrency)
		require.Equal(t, one.failures, more.failures, concurrency)
		require.Equal(t, one.totals.OK, more.totals.OK, concurrency)
		require.Equal(t, one.totals.Dropped, more.totals.Dropped, concurrency)
	}
}

// B9: the four calls are under way at once.
func showsAtOnce(t *testing.T, k kind) {
	tr := k.try(t)
	tr.options.Slots, tr.options.Concurrency, tr.batch = 1, 4, 1
	tr.start()
	items := slices.Repeat([]string{"join " + filepath.Join(tr.dir, "all")}, 4)
	o := tr.obey(items...)
	require.Equal(t, said(t, items...), o.output)
	require.Equal(t, []int{1, 1, 1, 1}, tr.calls)
}

// B9, K8: an item that ends its process costs itself alone, though the process had other calls in hand.
func showsCompany(t *testing.T, k kind) {
	tr := k.try(t)
	tr.options.Slots, tr.options.Concurrency, tr.batch = 1, 4, 1
	tr.start()
	all := filepath.Join(tr.dir, "all")
	o := tr.obey("join "+all, "join "+all, "quit "+all, "join "+all)
	require.Equal(t, said(t, slices.Repeat([]string{"join " + all}, 3)...), o.output)
	failure := o.only(t)
	require.EqualValues(t, 2, failure.Item)
	require.Equal(t, k.ends(), failure.Kind)
	require.Equal(t, 1, failure.Attempts)
}

// K1, K6, K8: an item that ends its process costs itself alone, and few calls; the crashes are
// counted exactly, and so are the items' outcomes.
func showsCrashes(t *testing.T, k kind) {
	tr := k.try(t)
	if !k.slots {
		tr.limits.Attempts = 3 // of a slot's restarts, the second in a row waits a second
	}
	tr.start()
	random := seeded(t, 8)
	items := several(64)
	bad := random.IntN(len(items))
	died := filepath.Join(tr.dir, "died")
	items[bad] = "die " + died
	o := tr.obey(items...)
	require.Equal(t, said(t, slices.Delete(items, bad, bad+1)...), o.output)
	failure := o.only(t)
	require.EqualValues(t, bad, failure.Item)
	require.Equal(t, k.ends(), failure.Kind)
	require.Equal(t, "Exit", failure.Error.Type)
	require.Equal(t, "exit 3: last words", failure.Error.Message)
	require.Contains(t, failure.Error.Stack, "last words\n")
	if !k.own {
		tr.requireNarrowed(64, failure)
	}
	require.EqualValues(t, 63, o.totals.OK)
	require.EqualValues(t, 1, o.totals.Failed)
	answered := 63
	if k.own {
		answered = 64
	}
	require.EqualValues(t, answered, o.totals.CallItems, "B10: what was answered, after an error too")
	crashes := count(died)
	if k.ends() == job.KindCrash {
		require.EqualValues(t, crashes, o.totals.Crashes)
	} else {
		require.Zero(t, o.totals.Crashes, "14.15: a filter that ends with a status has not crashed")
	}
	if k.concurrency == 1 {
		require.Equal(t, crashes, failure.Attempts)
	} else { // as long as other calls are in hand, none counts as tried
		require.LessOrEqual(t, failure.Attempts, crashes)
		require.GreaterOrEqual(t, failure.Attempts, crashes-bits.Len(uint(k.concurrency-1)))
	}
	if k.slots {
		tr.replaced(crashes)
	}
}

// T15, T17, K8: an item that hangs is ended with its call, when the call's time is over.
func showsHangs(t *testing.T, k kind) {
	if k.inside {
		synctest.Test(t, func(t *testing.T) { require.True(t, k.showHanging(t, time.Minute)) })
		return
	}
	// On a busy machine other calls may take longer than the first of these, too.
	for _, timeout := range []time.Duration{300 * time.Millisecond, 3 * time.Second} {
		if k.showHanging(t, timeout) {
			return
		}
	}
	require.True(t, k.showHanging(t, 30*time.Second), "more than one item hangs, or it hangs somewhere else")
}

// showHanging reports false if calls of other items have expired, too, or one before the handler had begun.
func (k kind) showHanging(t *testing.T, timeout time.Duration) bool {
	tr := k.try(t)
	tr.limits.Timeout = timeout
	tr.start()
	o := tr.obey("a", "hang", "b", "c")
	if len(o.failures) != 1 || o.failures[0].Item != 1 || o.totals.Expiries != int64(o.failures[0].Attempts) ||
		!strings.Contains(o.failures[0].Error.Stack, k.hanging) {
		return false
	}
	require.Equal(t, said(t, "a", "b", "c"), o.output)
	failure := o.only(t)
	require.Equal(t, job.KindExpired, failure.Kind)
	require.Equal(t, "Expired", failure.Error.Type)
	require.Contains(t, failure.Error.Message, fmt.Sprintf("the call took longer than %v", timeout))
	require.Zero(t, o.totals.Crashes)
	tr.requireNarrowed(4, failure)
	if k.slots {
		tr.replaced(failure.Attempts)
	}
	return true
}

// K5: while processes of one slot die, the call of the other slot continues.
func showsSlots(t *testing.T, k kind) {
	tr := k.try(t)
	tr.batch = 2
	tr.start()
	began := map[int]int{}
	for _, e := range tr.happened(slotReady) {
		began[e.Slot] = e.PID
	}
	died := filepath.Join(tr.dir, "died")
	o := tr.obey("await "+died, "a", "die "+died, "b")
	require.Equal(t, said(t, "await "+died, "a", "b"), o.output)
	require.Equal(t, k.ends(), o.only(t).Kind)
	require.Equal(t, 3, count(died))
	slices.Sort(tr.calls)
	require.Equal(t, []int{1, 1, 1, 2, 2}, tr.calls, "the other slot's call was made once")
	if !k.slots {
		return
	}
	replaced := tr.replaced(3)
	other := 1 - replaced[0].Slot
	for i, e := range replaced {
		require.NotEqual(t, other, e.Slot)
		require.Equal(t, i+1, e.Incarnation)
	}
	require.Equal(t, began[other], tr.running(other).pid())
	require.Zero(t, tr.running(other).incarnation)
}

// Items may be large, have any text, and look like frames.
func showsAnyItem(tr *trial) {
	t := tr.t
	items := []string{
		"", " ", "Zoë ☃", "日本語", "𝄞 and 👩‍🚀", "<a href='x'>&amp;</a>", "a\tb\r\nc", `"quoted" and \back\slashed`, "\x00\x01\x1f\x7f",
		strings.Repeat("Größe ", 1<<20/8), `{"type":"results","id":1,"results":[]}`, "nullable", "Null",
	}
	o := tr.obey(items...)
	require.Empty(t, o.failures)
	require.Equal(t, said(t, items...), o.output)
}
