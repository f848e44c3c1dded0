package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// kind is a way to run a handler. All of them do what their items say: see obey_test.go.
type kind struct {
	name    string
	handler func(f *fixture) Handler
	// cannot names the behaviours that the kind cannot show, and says why.
	cannot map[string]string

	concurrency int // calls of a slot at once

	slots   bool   // a slot has a process that stays, and is replaced when it dies
	inside  bool   // calls run in this process, and obey when they are cancelled
	own     bool   // each item has a process of its own, whose end is its own outcome
	chunk   int    // items of a call, whatever Options.CallItems says; 0: what it says
	singles int    // as many items make a large input if each has a process; 0: 2,500
	size    int    // the size of its call that an item sees, with single items
	alone   bool   // ... and of every other call, too
	stack   string // what the stack of an item's error has in it
	hanging string // what the stack of a hanging call has in it
}

// ends is the kind of failure of an item whose process ends by itself, with a status: a filter may, a program should
// have stayed.
func (k kind) ends() string {
	if strings.HasPrefix(k.name, "exec") || k.own {
		return job.KindExit
	}
	return job.KindCrash
}

// Why kinds cannot show something.
const (
	noProcess   = "it runs in the worker's process, which has nothing to lose: see panics"
	noPanic     = "panics are Go's"
	oneByOne    = "its function gives one result for one item"
	noOwnError  = "a line is all that it has to say of an item, and its exit status of a call"
	manyAtOnce  = "one slot takes all calls"
	noNarrowing = "a command has one item: nothing has to be narrowed"
	noThreads   = "the program answers one call after the other"
	manyWait    = "a server that states a wait has all wait: see slowing down"
	noCost      = "nothing that it says is a cost"
	noWords     = "a status, and what the server has said beside it, are all that is known of an error"
)

var kinds = []kind{
	{
		name: "each", inside: true, chunk: eachItems, alone: true,
		handler: func(*fixture) Handler { return Each(obeyEach) },
		cannot:  map[string]string{"lengths": oneByOne, "whole calls": oneByOne, "crashes": noProcess, "company": noProcess, "slots": noProcess},
	}, {
		name: "batch", inside: true, size: 1,
		handler: func(*fixture) Handler { return Batch(obeyBatch) },
		cannot:  map[string]string{"crashes": noProcess, "company": noProcess, "slots": noProcess},
	}, {
		name: "exec", size: 1, singles: 250,
		handler: func(f *fixture) Handler { return Exec("awk", "-f", here(f.t, "testdata/obey.awk")) },
		cannot: map[string]string{
			"errors": noOwnError, "item attempts": noOwnError, "drops": noOwnError, "whole calls": noOwnError,
			"retry after": noOwnError, "panics": noPanic, "costs": noCost,
		},
	}, {
		name: "command", own: true, singles: 250, size: 1, alone: true,
		handler: func(f *fixture) Handler {
			return Command(CommandOptions{Words: []string{"awk", "-f", here(f.t, "testdata/obey.awk")}, Stdin: true})
		},
		cannot: map[string]string{
			"errors": noOwnError, "item attempts": noOwnError, "drops": noOwnError, "whole calls": oneByOne, "lengths": oneByOne,
			"retry after": noOwnError, "panics": noPanic, "slots": noNarrowing, "costs": noCost,
		},
	}, {
		name: "serve", slots: true, stack: "here", hanging: "(*obedient).do(",
		handler: func(f *fixture) Handler { return f.program("yes") },
		cannot:  map[string]string{"panics": noPanic, "at once": noThreads, "company": noThreads},
	}, {
		name: "python", slots: true, stack: "in obey", hanging: "in obey",
		handler: func(f *fixture) Handler { return f.python(here(f.t, "testdata/obey.py")) },
		cannot:  map[string]string{"panics": noPanic},
	}, {
		name: "async python", slots: true, stack: "in obey_async", hanging: "in run_forever",
		handler: func(f *fixture) Handler { return f.python(here(f.t, "testdata/obey.py"), "async") },
		cannot:  map[string]string{"panics": noPanic},
	}, {
		name: "async python of each", slots: true, alone: true, stack: "in obey_async", hanging: "in run_forever",
		handler: func(f *fixture) Handler { return f.python(here(f.t, "testdata/obey.py"), "each") },
		cannot:  map[string]string{"panics": noPanic, "lengths": oneByOne, "whole calls": oneByOne},
	}, {
		name: "http", chunk: 1, size: 1, alone: true,
		handler: func(f *fixture) Handler { return f.http(HTTPOptions{}, false) },
		cannot: map[string]string{
			"errors": noWords, "item attempts": noOwnError, "drops": noOwnError, "whole calls": oneByOne, "lengths": oneByOne, "panics": noPanic,
			"retry after": manyWait, "crashes": noProcess, "company": noProcess, "slots": noProcess, "costs": noCost,
		},
	}, {
		name: "http of lists", size: 1,
		handler: func(f *fixture) Handler { return f.http(HTTPOptions{Array: true}, true) },
		cannot: map[string]string{
			"errors": noWords, "item attempts": noOwnError, "drops": noOwnError, "whole calls": noWords, "panics": noPanic,
			"retry after": manyWait, "crashes": noProcess, "company": noProcess, "slots": noProcess, "costs": noCost,
		},
	}, {
		name: "each in processes", slots: true, chunk: eachItems, alone: true, hanging: "worker.obeyEach(",
		handler: func(f *fixture) Handler { return f.inProcesses("obey each") },
		cannot:  map[string]string{"lengths": oneByOne, "whole calls": oneByOne},
	}, {
		name: "batch in processes", slots: true, size: 1, hanging: "worker.obeyBatch(",
		handler: func(f *fixture) Handler { return f.inProcesses("obey batch") },
		cannot:  map[string]string{},
	},
}

// calm are the behaviours that leave the handler's processes alone, by the names that the kinds know
// them by. They are shown by one and the same handler, one after the other.
var calm = map[string]func(tr *trial){
	"any item":      showsAnyItem,
	"costs":         showsCosts,
	"drops":         showsDrops,
	"errors":        showsErrors,
	"item attempts": showsItemAttempts,
	"lengths":       showsLengths,
	"nulls":         showsNulls,
	"panics":        showsPanics,
	"retry after":   showsRetryAfter,
	"rules":         showsRules,
	"slowing down":  showsSlowingDown,
	"whole calls":   showsWholeCalls,
}

// rough are the others; each makes its own handler for them.
var rough = map[string]func(t *testing.T, k kind){
	"at once":     showsAtOnce,
	"call sizes":  showsCallSizes,
	"company":     showsCompany,
	"concurrency": showsConcurrency,
	"crashes":     showsCrashes,
	"hangs":       showsHangs,
	"outcomes":    showsOutcomes,
	"slots":       showsSlots,
}

// raced are the kinds that are shown with -short, too, and so under the race detector, and racedAtOnce those of them
// with several calls at once: they differ in how calls get to the handler.
var (
	raced       = []string{"each", "batch", "exec", "serve", "batch in processes"}
	racedAtOnce = []string{"each", "serve", "batch in processes"}
)

// TestConformance holds all kinds of handlers to the same behaviours.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, k := range atOnce(kinds, 1, 16, autoConcurrency) {
		if kind, _, many := strings.Cut(k.name, ","); testing.Short() && (!slices.Contains(raced, kind) || many && !slices.Contains(racedAtOnce, kind)) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range slices.Sorted(maps.Keys(k.cannot)) {
				require.True(t, calm[name] != nil || rough[name] != nil, name)
				t.Logf("%s cannot be shown: %s", name, k.cannot[name])
			}
			for _, name := range slices.Sorted(maps.Keys(rough)) {
				if k.can(name) {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						rough[name](t, k)
					})
				}
			}
			t.Run("calm", func(t *testing.T) {
				t.Parallel()
				tr := k.try(t)
				tr.options.CallItems = 10
				tr.start()
				for _, name := range slices.Sorted(maps.Keys(calm)) {
					if k.can(name) {
						t.Run(name, func(t *testing.T) { calm[name](tr.of(t)) })
					}
				}
				require.Empty(t, tr.happened(slotReplaced), "all processes are those of the start")
			})
		})
	}
}

// atOnce are the kinds with slots that make so many calls at once.
func atOnce(kinds []kind, concurrency ...int) []kind {
	var all []kind
	for _, n := range concurrency {
		for _, k := range kinds {
			k.concurrency = n
			if n != 1 {
				k.name += fmt.Sprintf(", %d at once", n)
				if n == autoConcurrency {
					k.name = strings.Replace(k.name, "-1 at once", "auto", 1)
				}
				k.cannot = maps.Clone(k.cannot)
				k.cannot["slots"] = manyAtOnce
				if k.cannot["at once"] == noThreads {
					k.cannot["hangs"] = "other calls wait for the one that hangs"
				}
			}
			all = append(all, k)
		}
	}
	return all
}

// can reports whether the kind can show a behaviour.
func (k kind) can(name string) bool {
	_, cannot := k.cannot[name]
	return !cannot
}

// trial is a handler of some kind on trial.
type trial struct {
	*fixture
	kind kind

	mu    sync.Mutex
	calls []int // the sizes of those that were made, in no order if there are several slots
}

func (k kind) try(t *testing.T) *trial {
	tr := &trial{fixture: setup(t), kind: k}
	tr.options.Slots, tr.options.Concurrency, tr.options.Restarts = 2, k.concurrency, 1000
	tr.limits.Attempts, tr.batch = 1, 10_000
	return tr
}

// of makes the trial one of a test's part.
func (tr *trial) of(t *testing.T) *trial {
	tr.t, tr.calls = t, nil
	tr.limits.Attempts, tr.limits.ItemAttempts = 1, 1
	return tr
}

// start starts the handler, with its calls counted.
func (tr *trial) start() {
	tr.t.Helper()
	h := tr.kind.handler(tr.fixture)
	tr.sentinels()
	require.NoError(tr.t, h.Check(tr.options))
	open := h.open
	h.open = func(s dependencies) (calls.Handler, service, error) {
		handler, service, err := open(s)
		return &noting{handler, tr}, service, err
	}
	tr.serve(h)
}

// obey runs the handler, which has been started, over the items.
func (tr *trial) obey(items ...string) outcome {
	tr.t.Helper()
	return tr.flowOf("in.jsonl", said(tr.t, items...))
}

// noting notes the calls of a handler.
type noting struct {
	calls.Handler
	of *trial
}

func (h *noting) Call(c *calls.Call) error {
	h.of.mu.Lock()
	h.of.calls = append(h.of.calls, len(c.Items))
	h.of.mu.Unlock()
	return h.Handler.Call(c)
}

// said makes JSON lines of the items, which are the output if all of them are echoed.
func said(t *testing.T, items ...string) string {
	t.Helper()
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for _, item := range items {
		require.NoError(t, enc.Encode(item))
	}
	return text.String()
}

// several makes n items.
func several(n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = "item " + strconv.Itoa(i)
	}
	return items
}

// callSize is how many items calls have, 0 if the worker may choose.
func (tr *trial) callSize() int {
	switch {
	case tr.kind.chunk > 0 && tr.options.Concurrency != 1:
		return 0
	case tr.kind.chunk > 0:
		return tr.kind.chunk
	case tr.options.CallItems == oneItem:
		return 1
	}
	return tr.options.CallItems
}

// requireCalls requires that the call statistics are those of batches of these sizes (B10).
func (tr *trial) requireCalls(o outcome, batches ...int) {
	tr.t.Helper()
	items, largest := 0, 0
	for _, n := range batches {
		items += n
		largest = max(largest, n)
	}
	require.EqualValues(tr.t, items, o.totals.CallItems)
	size := tr.callSize()
	if size == 0 || items == 0 {
		require.LessOrEqual(tr.t, o.totals.CallMax, int64(largest))
		require.LessOrEqual(tr.t, o.totals.CallMin, o.totals.CallMax)
		return
	}
	calls, smallest := 0, size
	for _, n := range batches {
		calls += (n + size - 1) / size
		smallest = min(smallest, (n-1)%size+1)
	}
	require.EqualValues(tr.t, calls, o.totals.Calls)
	require.EqualValues(tr.t, smallest, o.totals.CallMin)
	require.EqualValues(tr.t, min(size, largest), o.totals.CallMax)
}
