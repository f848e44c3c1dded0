package starter_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

func TestLoop_StatusResultsStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.worker("p", "--exec", "cat", "--slots", "2")
	c := b.stint("loop", "--name", "probe", "--pool", "p", "--every", "20ms", "--slots", "2", "-o", "out/").exits(starter.ExitOK)
	require.Equal(t, "probe\n", c.stdout.String())
	require.NotContains(t, c.stderr.String(), "free slot")
	eventually(t, "some ticks", func() bool { r := b.status("probe"); return r.Loop != nil && r.Loop.Ticks > 20 })
	text := b.stint("status", "probe").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `items +[0-9,]+ ticks run, [0-9,]+ ok`, text)
	require.Regexp(t, `loop +2 slots, every 20ms, missed ticks are made up`, text)
	require.Regexp(t, `late +[0-9.]+(µs|ms|s) at the median`, text)
	require.Regexp(t, `probe +p +running .* clock +.*out/`, b.stint("list").exits(starter.ExitOK).stdout.String())
	eventually(t, "parts of a loop that runs", func() bool { return b.stint("results", "probe").exits(starter.ExitOK).stdout.String() != "" })
	b.stint("stop", "probe", "--wait").exits(starter.ExitOK)
	lines := strings.SplitAfter(b.stint("results", "probe").exits(starter.ExitOK).stdout.String(), "\n")
	report := b.status("probe")
	require.Equal(t, job.Stopped, report.State)
	next := [2]int64{}
	for _, line := range lines[:len(lines)-1] {
		var tick struct {
			Slot int
			Tick int64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &tick), line)
		require.Equal(t, next[tick.Slot], tick.Tick)
		next[tick.Slot]++
	}
	for slot, at := range report.Loop.At {
		require.Equal(t, at.Next, next[slot])
	}
	require.Regexp(t, `loop +2 slots`, b.stint("status", "probe").exits(starter.ExitOK).stdout.String())
}

// A pool with fewer free slots than a loop asks for is warned about, and a job file can describe a loop.
func TestLoop_TooFewSlots(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.worker("p", "--exec", "cat", "--slots", "1")
	b.write("job.yaml", "source: clock\nname: probe\npool: p\nevery: 1h\nslots: 3\ncatch-up: skip\n")
	c := b.stint("loop", "-f", "job.yaml").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "2 of the loop's 3 slots wait for a free slot of pool p")
	report := b.status("probe")
	require.True(t, report.Loop.Skips())
	b.stint("stop", "probe", "--wait").exits(starter.ExitOK)
	b.declined(starter.ExitFailed, []string{"results", "probe"}, "the loop keeps no results")
}

func TestLoop_BadInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("job.yaml", "source: clock\nname: probe\npool: p\nevery: 0s\n")
	for _, test := range []struct {
		args, says string
	}{
		{"--every 0", "--every 0s: use 1ms or more, or leave it out"},
		{"--every -1s", "--every -1s: use 1ms or more"},
		{"--every 1us", "every 1µs: use 1ms to"},
		{"--slots 0", "--slots 0: use 1 to 200"},
		{"--slots -2", "--slots -2: use 1 to 200"},
		{"--slots 201", "slots 201: use 1 to 200"},
		{"--every 1s --catch-up some", `catch-up "some": use all or skip`},
		{"--catch-up skip", "a loop without an interval misses no tick"},
		{"-o out.jsonl", "end it with '/'"},
		{"--window 4", "window is not for loops"},
		{"--batch-timeout 1s", "batch-timeout is not for loops"},
		{"--max-failed 3", "max-failed is not for loops"},
		{"--job-rate 3", "job-rate is not for loops"},
		{"--format csv", "format"},
		{"in.jsonl", "in.jsonl"},
		{"-f job.yaml", "--every 0s: use 1ms or more"},
	} {
		args := append([]string{"loop", "--name", "probe", "--pool", "p"}, strings.Fields(test.args)...)
		b.declined(starter.ExitUsage, args, test.says)
	}
	b.declined(starter.ExitUsage, []string{"loop", "--name", "probe"}, "no pool given")
	b.declined(starter.ExitUsage, []string{"start", "-f", "job.yaml"}, "a loop is started by 'loop -f FILE'")
	b.declined(starter.ExitUsage, []string{"run", "-f", "job.yaml", "--exec", "cat"}, "a loop is started by 'loop -f FILE'")
}

// L5: a worker that is killed costs its slot what came after its last heartbeat. The slot goes on elsewhere, no tick is
// missing, those that ran again are counted, and results are there once.
func TestBrutal_LoopWithAKilledWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := seed(t)
	b.server()
	filter := b.witness("")
	serve := func() *process {
		return b.spawn("worker", "--pool", "p", "--exec", filter, "--slots", "1", "--allow", b.dir)
	}
	serving := serve()
	b.stint("loop", "--name", "probe", "--pool", "p", "--every", "50ms", "--expiry", "6s", "-o", "out/").exits(starter.ExitOK)
	before := int64(0) // ordinal after the last tick that lost workers have begun
	for range 2 {
		mark, target := b.size("witness"), len(b.ticks(0))+40+random.IntN(60)
		eventually(t, "ticks", func() bool { return len(b.ticks(0)) >= target })
		// What a worker does is in doubt for three seconds after the last heartbeat that reached the server: a slow machine
		// may take longer for the next one.
		eventually(t, "a heartbeat", func() bool {
			at, ticks := b.status("probe").Loop.At[0], b.ticks(mark)
			from, next := slices.Min(ticks), slices.Max(ticks)+1+20
			return at.Doubt >= next && at.Stats.Repeated+at.Unsure >= min(next, before)-from
		})
		serving.kill()
		before = max(before, slices.Max(b.ticks(mark))+1)
		serving = serve()
	}
	mark := b.size("witness")
	eventually(t, "new ticks", func() bool {
		ticks := b.ticks(mark)
		return len(ticks) > 0 && slices.Max(ticks) >= before+20
	})
	b.stint("stop", "probe", "--wait").exits(starter.ExitOK)
	report := b.status("probe")
	require.Equal(t, job.Stopped, report.State)
	runs := map[int64]int64{}
	for _, tick := range b.ticks(0) {
		runs[tick]++
	}
	repeated := int64(0)
	for n := range report.Loop.Ticks {
		require.Positive(t, runs[n], "tick %d never ran", n)
		repeated += runs[n] - 1
	}
	t.Logf("%d ticks, %d ran again, %d counted as such", report.Loop.Ticks, repeated, report.Loop.Repeated)
	require.Positive(t, report.Loop.Repeated)
	require.GreaterOrEqual(t, report.Loop.Repeated, repeated)
	require.EqualValues(t, 2, report.Expiries)
	require.Equal(t, report.Loop.Ticks, report.OK)
	var results []int64
	for line := range strings.Lines(b.stint("results", "probe").exits(starter.ExitOK).stdout.String()) {
		var tick struct{ Tick int64 }
		require.NoError(t, json.Unmarshal([]byte(line), &tick))
		results = append(results, tick.Tick)
	}
	require.Len(t, results, int(report.Loop.Ticks))
	require.True(t, slices.IsSorted(results))
	require.Equal(t, report.Loop.Ticks-1, results[len(results)-1])
}

// ticks are those that the witness has seen, after so many bytes.
func (b *box) ticks(after int64) (seen []int64) {
	if b.size("witness") <= after {
		return nil
	}
	for line := range strings.Lines(b.read("witness")[after:]) {
		var tick struct{ Tick int64 }
		if json.Unmarshal([]byte(line), &tick) == nil {
			seen = append(seen, tick.Tick)
		}
	}
	return seen
}
