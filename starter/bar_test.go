package starter

import (
	"bytes"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// 14.3: whatever there is to say and however wide the terminal, the bar is one line that fits, with one percentage.
func TestBar_FitsTheTerminal(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	percentage := regexp.MustCompile(`[0-9]+%`)
	for range 200 {
		r, speed := anyReport(random)
		for width := 1; width <= 200; width++ {
			line := barLine(r, speed, width-1)
			require.True(t, utf8.ValidString(line))
			require.Less(t, columns(line), width, "%q", line)
			if width < 1+leastBar+len(" 99%") { // the percentage alone, or what of a text has room
				continue
			}
			require.NotContains(t, line, "\n")
			require.NotContains(t, line, "\r")
			want := 1
			if _, known := r.Percent(); !known || r.Feed != nil || r.Loop != nil {
				want = 0
			}
			require.Len(t, percentage.FindAllString(line, -1), want, "%q", line)
			if want == 1 {
				require.GreaterOrEqual(t, strings.Count(line, "█")+strings.Count(line, "░"), leastBar)
			}
		}
	}
}

func anyReport(random *rand.Rand) (job.Report, job.Speed) {
	some := func() int64 { return int64(random.ExpFloat64() * 1000) }
	maybe := func() bool { return random.IntN(2) == 0 }
	done := some()
	r := job.Report{Job: "j", State: job.Running, PlanDone: maybe(), Planned: done + some(), Outcomes: job.Outcomes{Totals: job.Totals{OK: done}}}
	if maybe() {
		r.Failed, r.Retries, r.Crashes, r.Expiries, r.Isolations = some(), some(), some(), some(), some()
		r.Planned += r.Failed
	}
	if maybe() {
		r.TotalBytes = 1 + some()*1e6
		r.InputBytes = random.Int64N(r.TotalBytes + 1)
	}
	if maybe() {
		r.AsOf = time.Now().Add(-time.Duration(some()) * time.Second)
	}
	if maybe() {
		r.LastFailure = strings.Repeat("ä日本 \t", random.IntN(40)) + "\nsecond line"
	}
	switch random.IntN(5) {
	case 0:
		r.State = job.Stopping
	case 1:
		r.Outage = &job.Outage{Tries: 3, Message: strings.Repeat("no network ", random.IntN(20))}
	case 2:
		r.Throttle = &job.Throttle{Rate: 12_500}
	case 3:
		r.Feed = &job.FeedReport{Backlog: 12, Capacity: 1000}
	case 4:
		r.Loop = &job.LoopReport{Ticks: some()}
	}
	return r, job.Speed{Items: random.ExpFloat64() * 100, Bytes: random.ExpFloat64() * 1e6}
}

// 14.3: what matters most stands even in a narrow terminal; with room there is the rest.
func TestBar_SaysWhatMatters(t *testing.T) {
	t.Parallel()
	r := job.Report{State: job.Running, PlanDone: true, Planned: 3000, Outcomes: job.Outcomes{Totals: job.Totals{OK: 1228, Failed: 2, Retries: 7}}, LastFailure: "batch 3 (items 0–9): exit status 1"}
	speed := job.Speed{Items: 12.3}
	require.Equal(t, "█████████░░░░░░░░░░░░░░░ 41% · 1,230/3,000 · 12/s · 2m24s left · 2 failed · 7 retries · last retry: batch 3 (items 0–9): exit status 1", barLine(r, speed, 160))
	require.Equal(t, "██████░░░░░░░░░░░ 41% · 1,230/3,000 · 12/s · 2m24s left · 2 failed", barLine(r, speed, 66))
	require.Equal(t, "████░░░░░░ 41% · 1,230/3,000 · 2 failed", barLine(r, speed, 39))
	r.AsOf = time.Now().Add(-12 * time.Second)
	require.Contains(t, barLine(r, speed, 60), "numbers of 12s ago")
}

// 14.3: the bar is drawn over the last one, as wide as the terminal is then, and goes before anything else is printed.
func TestBar_IsDrawnInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	show := newProgress(&out, true, false)
	width := 50
	show.width = func() int { return width }
	r := job.Report{Job: "j", State: job.Running, PlanDone: true, Planned: 100, Outcomes: job.Outcomes{Totals: job.Totals{OK: 50}}}
	show.show(r)
	width = 120
	show.show(r)
	show.note("a message")
	show.end()
	require.Regexp(t, `^\r█+░+ 50% · 50/100\x1b\[K\r█+░+ 50% · 50/100\x1b\[K\r\x1b\[Ka message\n$`, out.String())
}

// R6: in a terminal of a few columns the percentage stands alone, and nothing is drawn that would begin another line.
func TestR6_BarOfAVeryNarrowTerminal(t *testing.T) {
	t.Parallel()
	r := job.Report{State: job.Running, PlanDone: true, Planned: 3000, Outcomes: job.Outcomes{Totals: job.Totals{OK: 1230}}}
	require.Equal(t, "████░░░░░░░░ 41% · 1,230/3,000", barLine(r, job.Speed{}, 30))
	require.Equal(t, "███░░░░░░ 41%", barLine(r, job.Speed{}, 13))
	require.Equal(t, "41%", barLine(r, job.Speed{}, 6))
	require.Equal(t, "41%", barLine(r, job.Speed{}, 3))
	require.Equal(t, "4…", barLine(r, job.Speed{}, 2))
	require.Empty(t, barLine(r, job.Speed{}, 0))
	r.PlanDone = false
	require.Equal(t, "1,230 items", barLine(r, job.Speed{}, 11))
	require.Empty(t, barLine(r, job.Speed{}, 10))
}

// R6: on a terminal that calls itself dumb progress is lines, as elsewhere, and the bar of any command knows the
// terminal's width.
func TestR6_DumbTerminal(t *testing.T) {
	t.Parallel()
	p := &Program{Terminal: true, Env: []string{"TERM=xterm"}, Stderr: io.Discard, Width: func() int { return 20 }}
	show := progressOf(p, false)
	require.True(t, show.terminal)
	require.NotNil(t, show.width)
	p.Env = []string{"TERM=xterm", "TERM=dumb"}
	var out bytes.Buffer
	p.Stderr = &out
	show = progressOf(p, false)
	show.lastLine = time.Now().Add(-time.Hour)
	show.show(job.Report{Job: "j", State: job.Running, PlanDone: true, Planned: 100, Outcomes: job.Outcomes{Totals: job.Totals{OK: 50}}})
	show.end()
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\r")
	require.Contains(t, out.String(), "50 of 100 items")
}
