package worker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// B9: the output of every kind of handler is the same with any number of calls at once, and what the items say: with
// items that are slow, have no result, fail, or have their call fail or their process end, at random.
func TestConcurrency_SameOutput(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	most := 2000
	if testing.Short() {
		most = 300
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{0, 1, 10, most} {
				sameOutput(t, k, n, 20, 1, 4, 64)
			}
		})
	}
}

// B9: the same with many items.
func TestConcurrency_SameOutputOfMany(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("200,000 items")
	}
	for _, k := range kinds {
		if !slices.Contains([]string{"each", "batch", "serve"}, k.name) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			sameOutput(t, k, 200_000, 500, 1, 200)
		})
	}
}

// sameOutput has a handler called with n items, so many calls at once in each of two slots. One item in every so many
// is slow.
func sameOutput(t *testing.T, k kind, n, slow int, atOnce ...int) {
	random := jobtest.Seeded(t, uint64(n))
	x := expect(random, k, n, slow)
	var want strings.Builder
	for _, line := range x.output {
		want.WriteString(line + "\n")
	}
	for _, concurrency := range atOnce {
		k.concurrency = concurrency
		tr := k.try(t)
		tr.batch = 1 + int64(n/(2+random.IntN(20)))
		tr.start()
		o := tr.obey(x.items...)
		name := fmt.Sprintf("%d items, %d at once", n, concurrency)
		require.True(t, want.String() == o.output, name)
		failed := map[int64]string{}
		for i, f := range o.failures {
			failed[f.Item] = f.Kind
			require.True(t, i == 0 || o.failures[i-1].Item < f.Item, "in order")
		}
		require.Equal(t, x.failed, failed, name)
		require.EqualValues(t, n-len(x.failed), o.totals.OK, name)
		require.EqualValues(t, len(x.failed), o.totals.Failed, name)
		require.EqualValues(t, x.dropped, o.totals.Dropped, name)
	}
}

// expected is items, and what should become of them.
type expected struct {
	items, output []string
	failed        map[int64]string // the kinds of their failures
	dropped       int
}

// expect makes items at random: one in every slow takes its time, one in thirty is special, and there is one of each
// that cost whole calls if there are enough others.
func expect(random *rand.Rand, k kind, n, slow int) expected {
	x := expected{items: several(n), failed: map[int64]string{}}
	costly := map[int]struct{ item, kind string }{}
	if n >= 10 {
		at := random.Perm(n)
		for i, c := range []struct{ behaviour, item, kind string }{
			{"crashes", "exit 3", k.ends()}, {"lengths", "short", job.KindLength}, {"whole calls", "fail oh", job.KindError},
		} {
			if k.can(c.behaviour) {
				costly[at[i]] = struct{ item, kind string }{c.item, c.kind}
			}
		}
	}
	for i := range x.items {
		special := random.IntN(90)
		c, isCostly := costly[i]
		switch {
		case isCostly:
			x.items[i], x.failed[int64(i)] = c.item, c.kind
			continue
		case special == 0 && k.can("nulls"):
			x.items[i] = "null"
			x.output = append(x.output, "null")
			continue
		case special == 1 && k.can("drops"):
			x.items[i] = "drop"
			x.dropped++
			continue
		case special == 2 && k.can("errors"):
			x.items[i], x.failed[int64(i)] = "error of its own", job.KindError
			continue
		case random.IntN(slow) == 0:
			x.items[i] = fmt.Sprint("nap ", random.IntN(4))
		}
		x.output = append(x.output, strconv.Quote(x.items[i]))
	}
	return x
}
