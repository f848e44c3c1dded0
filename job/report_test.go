package job

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

func TestState_Final(t *testing.T) {
	t.Parallel()
	for state, want := range map[State]bool{Running: false, Stopping: false, Completed: true, Stopped: true, Failed: true, "": false} {
		require.Equal(t, want, state.Final(), "state %q", state)
	}
}

func TestTotals_Add(t *testing.T) {
	t.Parallel()
	a := Totals{
		OK: 1, Failed: 2, Dropped: 3, Batches: 4, Retries: 5, Crashes: 6, Expiries: 7, Isolations: 8,
		Calls: 9, CallItems: 10, CallMin: 3, CallMax: 5, InputBytes: 11, Busy: 12 * time.Second,
	}
	b := Totals{
		OK: 100, Failed: 200, Dropped: 300, Batches: 400, Retries: 500, Crashes: 600, Expiries: 700, Isolations: 800,
		Calls: 900, CallItems: 1000, CallMin: 2, CallMax: 4, InputBytes: 1100, Busy: 1200 * time.Second,
	}
	sum := a
	sum.Add(b)
	require.Equal(t, Totals{
		OK: 101, Failed: 202, Dropped: 303, Batches: 404, Retries: 505, Crashes: 606, Expiries: 707, Isolations: 808,
		Calls: 909, CallItems: 1010, CallMin: 2, CallMax: 5, InputBytes: 1111, Busy: 1212 * time.Second,
	}, sum)
	require.EqualValues(t, 303, sum.Done())
}

func TestTotals_AddCoversEveryField(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[Totals]()
	for i := range typ.NumField() {
		one := Totals{Calls: 1} // the smallest call counts only if there was one
		if typ.Field(i).Name == "CallTimes" {
			one.CallTimes = "5 2:1"
			sum := one
			sum.Add(one)
			require.Equal(t, calltimes.Text("5 2:2"), sum.CallTimes)
			continue
		}
		var sum Totals
		if used, ok := reflect.ValueOf(&one).Elem().Field(i).Addr().Interface().(*Usage); ok {
			for j := range reflect.TypeFor[Usage]().NumField() {
				reflect.ValueOf(used).Elem().Field(j).SetInt(int64(5 + j))
			}
			sum.Add(one)
			require.Equal(t, one, sum)
			continue
		}
		reflect.ValueOf(&one).Elem().Field(i).SetInt(5)
		sum.Add(one)
		require.EqualValues(t, 5, reflect.ValueOf(sum).Field(i).Int(), "field %s", typ.Field(i).Name)
	}
}

func TestTotals_SmallestCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		sum  []Totals
		want int64
	}{
		{"first", []Totals{{Calls: 1, CallMin: 7}}, 7},
		{"smaller later", []Totals{{Calls: 1, CallMin: 7}, {Calls: 1, CallMin: 3}}, 3},
		{"larger later", []Totals{{Calls: 1, CallMin: 3}, {Calls: 1, CallMin: 7}}, 3},
		{"no calls after", []Totals{{Calls: 1, CallMin: 3}, {}}, 3},
		{"no calls before", []Totals{{}, {Calls: 2, CallMin: 3}}, 3},
		{"no calls at all", []Totals{{}, {}}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var sum Totals
			for _, o := range test.sum {
				sum.Add(o)
			}
			require.Equal(t, test.want, sum.CallMin)
		})
	}
}

// Legs end in any order, and so do batches: what they add up to must not depend on it.
func TestTotals_AddInAnyOrder(t *testing.T) {
	t.Parallel()
	const seed = 20261121
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all := make([]Totals, 50)
	for i := range all {
		all[i] = Totals{OK: random.Int64N(100), Failed: random.Int64N(5), Batches: 1, InputBytes: random.Int64N(1000)}
		if random.IntN(4) > 0 {
			all[i].Calls, all[i].CallMin = 1+random.Int64N(9), 1+random.Int64N(50)
			all[i].CallMax = all[i].CallMin + random.Int64N(50)
		}
	}
	var want Totals
	for _, o := range all {
		want.Add(o)
	}
	for range 20 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var left, right Totals
		cut := random.IntN(len(all))
		for i, o := range all {
			if i < cut {
				left.Add(o)
			} else {
				right.Add(o)
			}
		}
		left.Add(right)
		require.Equal(t, want, left)
	}
}

// People and programs read reports: their JSON is a contract.
func TestReport_JSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Report{
		Job: "nightly", Run: "r1", Pool: "p", State: Stopped, Reason: "lunch",
		Planned: 10, PlanDone: true, Outcomes: Outcomes{Totals: Totals{OK: 3, Failed: 1, Busy: time.Second}, Stragglers: []Straggler{{Batch: "batch 1", Leg: 2, Since: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)}}},
		Started: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC), Store: "out.stint", Manifests: []string{"m"},
	})
	require.NoError(t, err)
	require.JSONEq(t, `{
		"job": "nightly", "run": "r1", "pool": "p", "state": "stopped", "reason": "lunch",
		"planned": 10, "discarded": 0, "plan_done": true, "total_bytes": 0,
		"ok": 3, "failed": 1, "dropped": 0, "batches": 0, "retries": 0, "slow_downs": 0, "grace_ns": 0, "expiry_ns": 0, "attempts": 0, "settings": {}, "crashes": 0, "expiries": 0, "isolations": 0,
		"calls": 0, "call_items": 0, "call_min": 0, "call_max": 0, "input_bytes": 0, "busy_ns": 1000000000,
		"legs": 0, "waiting": 0, "in_flight": 0, "started": "2026-11-21T01:02:03Z",
		"stragglers": [{"batch": "batch 1", "leg": 2, "slot": 0, "since": "2026-11-21T01:02:03Z"}],
		"store": "out.stint", "manifests": ["m"]
	}`, string(data))
}

func TestOutage_String(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)
	o := Outage{Tries: 5, Message: "503"}
	require.Equal(t, "5 tries: 503", o.String())
	o.Since, o.Next = at, at.Add(time.Minute)
	require.Equal(t, "since 01:02:03 UTC, 5 tries, the next at 01:03:03 UTC: 503", o.String())
}

func TestR25_ReportIsALine(t *testing.T) {
	t.Parallel()
	r := Report{Job: "nightly", State: Running, Outcomes: Outcomes{Totals: Totals{OK: 1200, Failed: 3}}}
	for _, verb := range []string{"%v", "%+v", "%s"} {
		require.Equal(t, "nightly: running, 1,200 items ok, 3 failed", fmt.Sprintf(verb, r))
	}
}

// Notes quote names of files: ten of them stay short, whatever these are.
func TestNoticed_NotesAreShort(t *testing.T) {
	t.Parallel()
	var n Noticed
	for i := range 2 * limits.MaxNotes {
		n.Note(fmt.Sprint(i, strings.Repeat("<", 4000)))
	}
	require.Len(t, n.Notes, limits.MaxNotes)
	data, err := json.Marshal(n)
	require.NoError(t, err)
	require.Less(t, len(data), limits.MaxNotes*(maxNote+10))
}
