package job

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

func loopSpec() Spec {
	return Spec{Name: "probe", Pool: "probe", Loop: &Loop{Every: 10 * time.Second}}.WithDefaults()
}

func TestSpec_Loop(t *testing.T) {
	t.Parallel()
	s := loopSpec()
	require.NoError(t, s.Validate(), "it needs neither input nor output")
	require.Equal(t, 1, s.Loop.Slots)
	require.Equal(t, catchUpAll, s.Loop.CatchUp)
	require.Equal(t, OnErrorStop, s.OnError, "the first-error rule")
	data, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(data), `"every":"10s"`)
	var again Spec
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, s, again)

	s = Spec{Name: "probe", Pool: "probe", Loop: &Loop{Slots: 4}, Output: "out/"}.WithDefaults()
	require.NoError(t, s.Validate())
	require.Empty(t, s.Loop.CatchUp)
}

func TestSpec_LoopRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		field, want string
		change      func(*Spec)
	}{
		{"Loop.Every", "use 1ms to", func(s *Spec) { s.Loop.Every = -time.Second }},
		{"Loop.Every", "use 1ms to", func(s *Spec) { s.Loop.Every = time.Microsecond }},
		{"Loop.Slots", "use 1 to 200", func(s *Spec) { s.Loop.Slots = -1 }},
		{"Loop.Slots", "use 1 to 200", func(s *Spec) { s.Loop.Slots = limits.MaxSlots + 1 }},
		{"Loop.CatchUp", "use all or skip", func(s *Spec) { s.Loop.CatchUp = "some" }},
		{"Loop.CatchUp", "misses no tick", func(s *Spec) { s.Loop.Every = 0 }},
		{"Output", "end it with '/'", func(s *Spec) { s.Output, s.Store = "out.jsonl", "s/" }},
		{"Format", "leave it out", func(s *Spec) { s.Format = "csv" }},
		{"Files", "excludes Loop", func(s *Spec) { s.Files = &Files{Input: []string{"a"}} }},
		{"BatchItems", "is not for loops", func(s *Spec) { s.BatchItems = 1 }},
		{"BatchBytes", "is not for loops", func(s *Spec) { s.BatchBytes = 1 }},
		{"BatchTimeout", "is not for loops", func(s *Spec) { s.BatchTimeout = time.Hour }},
		{"Window", "is not for loops", func(s *Spec) { s.Window = 1 }},
		{"JobRate", "is not for loops", func(s *Spec) { s.JobRate = 1000 }},
		{"MaxFailed", "is not for loops", func(s *Spec) { s.MaxFailed = "3" }},
		{"Feed", "excludes Loop", func(s *Spec) { s.Feed = &Feed{} }},
	} {
		s := loopSpec()
		test.change(&s)
		err := s.Validate()
		var field *FieldError
		require.ErrorAs(t, err, &field)
		require.Equal(t, test.field, field.Field)
		require.ErrorContains(t, err, test.want)
	}
	require.ErrorContains(t, ScheduleOptions{Cron: []string{"0 3 * * *"}}.Validate(loopSpec()), "a loop is not started by a schedule")
}

func TestLoopReport(t *testing.T) {
	t.Parallel()
	s := loopSpec()
	s.Loop.Slots = 2
	var stats LoopStats
	for i := range 100 {
		stats.Began(time.Duration(i) * 100 * time.Microsecond) // 0 to 9.9 ms
	}
	stats.OK, stats.Missed, stats.Repeated = 100, 3, 2
	r := s.Loop.Report([]LoopSlot{{Slot: 1, Next: 100, Skipped: 4, Stats: stats}, {Slot: 7, Next: 5}})
	require.EqualValues(t, 100, r.Ticks)
	require.EqualValues(t, 3, r.Missed)
	require.EqualValues(t, 4, r.Skipped)
	require.EqualValues(t, 2, r.Repeated)
	require.Equal(t, 5*time.Millisecond, r.LateMedian)
	require.Equal(t, 9900*time.Microsecond, r.LateMax)
	require.Equal(t, 4950*time.Microsecond, r.LateMean)
	require.Zero(t, r.Recorded(), "slot 0 has nothing")
	r.Include(LoopSlot{Slot: 0, Next: 7}, LoopSlot{Slot: 1, Next: 50})
	require.EqualValues(t, 107, r.Ticks, "a slot does not go back")
	require.EqualValues(t, 7, r.Recorded())
	require.Empty(t, r.Warning("p"))
	r.Idle = 1
	require.Contains(t, r.Warning("p"), "1 of the loop's 2 slots wait for a free slot of pool p")
}
