package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// S7: what is still running after grace, TERM and KILL is named.
func TestStop_Stragglers(t *testing.T) {
	t.Parallel()
	for _, grace := range []string{"0", "10s"} {
		for _, leg := range []int{0, 1} {
			t.Run(fmt.Sprintf("grace %s, leg %d", grace, leg), func(t *testing.T) {
				t.Parallel()
				w := setup(t, 300)
				w.spec.Window = 3
				stuck := int64(10 + leg*200)
				w.process = func(x *execution) {
					x.onCancel = func() {} // ignores it
					switch x.in.Batch.First {
					case stuck:
						x.took = 0
					case stuck + 10:
						x.took = time.Hour + 15*time.Second // ends late, but in time
					}
				}
				w.at(time.Hour, func() { w.stop(job.Stop{Grace: grace}) })
				report := w.stopped()
				d, err := time.ParseDuration(grace)
				require.NoError(t, err)
				require.InDelta(t, (time.Hour + d + dispatch.KillLimit).Seconds(), took(report), 0.1)
				require.Len(t, report.Stragglers, 1)
				s := report.Stragglers[0]
				number := stuck/10 + 1
				require.Equal(t, fmt.Sprintf("batch %d · items %d–%d", number, stuck, stuck+9), s.Batch)
				require.Equal(t, leg, s.Leg)
				x := w.tries(stuck)[0]
				require.WithinDuration(t, x.at, s.Since, 0)
				require.Equal(t, fmt.Sprintf("host-%d", x.number), s.Worker)
				require.Equal(t, 1000+x.number, s.PID)
				require.Equal(t, job.ErrorLeftovers, report.Error.Type)
				require.Equal(t, fmt.Sprintf("Coordinator stopped with work still running: %s on worker %s, slot 1, pid %d, for %v",
					s.Batch, s.Worker, s.PID, s.Noted.Sub(s.Since).Round(time.Second)), report.Error.Message)
				require.EqualValues(t, 290, report.OK, "all others are kept")
			})
		}
	}
}

// Both legs' stragglers are in the report.
func TestStop_StragglersOfSeveralLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 2000)
	w.pageLimit, w.spec.Window = 50, 10
	w.process = func(x *execution) {
		x.onCancel = func() {}
		if first := x.in.Batch.First; first == 300 || first == 700 {
			x.took = 0
		}
	}
	w.at(time.Hour, func() { w.stop(job.Stop{Grace: "1s"}) })
	report := w.stopped()
	require.Len(t, report.Stragglers, 2)
	require.ElementsMatch(t, []int{1, 2}, []int{report.Stragglers[0].Leg, report.Stragglers[1].Leg})
}

// S7: a recorded error takes precedence over stragglers, which are listed all the same.
func TestStop_ErrorAndStragglers(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.process = func(x *execution) {
		x.took, x.onCancel = 0, func() {}
	}
	w.at(time.Second, func() { w.stop(job.Stop{Error: &job.Error{Type: "DiskFull", Message: "no space left"}, Grace: "1s"}) })
	_, err := w.run()
	report := w.failedReport(err, "DiskFull")
	require.Len(t, report.Stragglers, w.spec.Window, "all places of both legs")
}

// S7: stragglers can be ignored, by the spec or the stop: then they are listed and nothing else.
func TestStop_IgnoresStragglers(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"spec", "stop", "later stop"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100)
			w.spec.IgnoreStragglers = by == "spec"
			w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
			w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1s", IgnoreStragglers: by == "stop"}) })
			if by == "later stop" {
				w.at(time.Minute+time.Second, func() { w.stop(job.Stop{IgnoreStragglers: true}) })
			}
			report := w.stopped()
			require.Len(t, report.Stragglers, 10)
			require.Nil(t, report.Error)
		})
	}
}

// S7: a recorded error takes precedence over stragglers.
func TestStop_ErrorBeforeStragglers(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
	w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1s", Error: &job.Error{Type: "Full", Message: "the disk is full"}}) })
	_, err := w.run()
	report := w.failedReport(err, "Full")
	require.Len(t, report.Stragglers, 10)
}

// S7: who waits for a job that has failed with another error finds its stragglers among the later errors: also if there
// are many of these, and not if stragglers are to be ignored.
func TestStop_StragglersAreALaterError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		later   int
		ignored bool
		want    []string // the types of the last two errors, of all or of those that are kept
		omitted int
	}{
		{"alone", 0, false, []string{job.ErrorLeftovers}, 0},
		{"many", limits.MaxLaterErrors + 2, false, []string{"Late 18", job.ErrorLeftovers}, 3},
		{"ignored", 2, true, []string{"Late 0", "Late 1"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100)
			w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
			w.at(time.Minute, func() {
				w.stop(job.Stop{Grace: "1s", Error: &job.Error{Type: "Full", Message: "the disk is full"}, IgnoreStragglers: c.ignored})
				for i := range c.later {
					w.stop(job.Stop{Error: &job.Error{Type: fmt.Sprintf("Late %d", i), Message: "too late"}})
				}
			})
			_, err := w.run()
			report := w.failedReport(err, "Full")
			require.Len(t, report.Stragglers, 10)
			var kinds []string
			for _, e := range report.LaterErrors {
				kinds = append(kinds, e.Type)
			}
			require.LessOrEqual(t, len(kinds), limits.MaxLaterErrors)
			require.Equal(t, c.want, kinds[max(0, len(kinds)-2):])
			require.Equal(t, c.omitted, report.LaterErrorsOmitted)
			if !c.ignored {
				require.Contains(t, report.LaterErrors[len(kinds)-1].Message, "Coordinator stopped with work still running: batch ")
			}
		})
	}
}

// S7: if nobody knows where they run, they are named without a place.
func TestStop_StragglersNobodyFinds(t *testing.T) {
	t.Parallel()
	w := setup(t, 10)
	w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
	w.locate = func(wire.LocateInput) error { return transient("no server answers") }
	w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1s"}) })
	report := w.stopped()
	require.Len(t, report.Stragglers, 1)
	require.Empty(t, report.Stragglers[0].Worker)
	require.Contains(t, report.Error.Message, "batch 1 · items 0–9, for 1m")
}

// What a stop has ended by force is named in the report, a bounded number of it.
func TestStop_NamesWhatItEndsByForce(t *testing.T) {
	t.Parallel()
	w := setup(t, 400)
	w.spec.Window = 30
	w.process = func(x *execution) {
		cutOff := x.done(0)
		cutOff.Forced = []job.ForcedEnd{{Worker: "host-1", PID: 4711, Signal: "KILL"}}
		x.took, x.onCancel = 0, func() { x.endAfter(time.Second, cutOff, nil) }
	}
	w.at(time.Minute, func() { w.stop(job.Stop{Reason: "enough"}) })
	report := w.stopped()
	require.Len(t, report.Forced, limits.MaxForced)
	require.Equal(t, w.most-limits.MaxForced, report.ForcedOmitted)
	require.Regexp(t, `^batch \d+ · items \d+–\d+ on worker host-1, slot 0, pid 4711, by KILL$`, report.Forced[0].String())
}

// S7, S20: a worker that falls silent after a stop is named, however soon its batches expire, and the cleanup hook is
// skipped: its programs may still run. One whose process is known to have ended is not.
func TestD8_SilentWorkersAreNamedAtAStop(t *testing.T) {
	t.Parallel()
	for _, leg := range []int{0, 1} {
		for _, c := range []struct{ ended, heard bool }{{false, true}, {true, true}, {false, false}, {true, false}} {
			t.Run(fmt.Sprintf("leg %d, ended %v, heard of %v", leg, c.ended, c.heard), func(t *testing.T) {
				t.Parallel()
				ended := c.ended
				w := setup(t, 300)
				w.spec.Window, w.spec.Cleanup = 3, []string{"tidy"}
				frozen := int64(10 + leg*200)
				place := wire.SlotRef{Worker: "mill-4711", Slot: 2, PID: 4712, Process: "table:4711:1"}
				expired := temporal.NewHeartbeatTimeoutError(wire.Hint{SlotRef: place})
				if !c.heard { // the server knows who took it, and no more
					place.Slot, place.PID = 0, 0
					w.taker, expired = &place, temporal.NewHeartbeatTimeoutError()
				}
				w.process = func(x *execution) {
					switch x.in.Batch.First {
					case frozen:
						x.took, x.onCancel = 0, func() { x.endAfter(10*time.Second, wire.ProcessResult{}, expired) }
					case frozen + 10:
						x.took = 0
					}
				}
				w.ended = func(process string) bool { return ended && process == place.Process }
				w.at(time.Hour, func() { w.stop(job.Stop{Grace: "2m"}) })
				report := w.stopped()
				if ended {
					require.Empty(t, report.Stragglers)
					require.Nil(t, report.Error)
					require.Empty(t, report.Hooks[0].Skipped)
					return
				}
				require.Len(t, report.Stragglers, 1)
				require.Contains(t, report.Error.Message, fmt.Sprintf("items %d–%d on worker mill-4711, slot %d", frozen, frozen+9, place.Slot))
				why := "(nothing was ever heard of it: it was lost on its way to the worker, or "
				if c.heard {
					why = "(its worker no longer reports: "
				}
				require.Contains(t, report.Error.Message, why)
				require.Equal(t, job.ErrorLeftovers, report.Error.Type)
				require.NotEmpty(t, report.Hooks[0].Skipped)
			})
		}
	}
}

// S7, S20: Go calls that ignore a stop, which end with their batch's answer, are named, and the cleanup hook is
// skipped.
func TestD6_CallsLeftBehindAreStragglers(t *testing.T) {
	t.Parallel()
	for _, ignored := range []bool{false, true} {
		w := setup(t, 100)
		w.spec.Cleanup, w.spec.IgnoreStragglers = []string{"tidy"}, ignored
		w.process = func(x *execution) {
			if x.in.Batch.First != 10 {
				return
			}
			rest := x.done(0)
			rest.Left = []job.Straggler{
				{Batch: "items 10–19", Worker: "mill-1", Slot: 3, PID: 77, Since: x.at, Why: "a Go function"},
				{Batch: "item 5", Worker: "mill-1", Since: x.at},
			}
			x.took, x.onCancel = 0, func() { x.endAfter(6*time.Second, rest, nil) }
		}
		w.at(time.Minute, func() { w.stop(job.Stop{Grace: "0s"}) })
		report := w.stopped()
		require.Len(t, report.Stragglers, 2)
		require.Equal(t, "batch 2 · items 10–19 on worker mill-1, slot 3, pid 77, for 1m6s (a Go function)", report.Stragglers[0].String())
		require.NotEmpty(t, report.Hooks[0].Skipped)
		require.Equal(t, ignored, report.Error == nil)
		require.EqualValues(t, 90, report.OK)
	}
}
