package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// number is the number of a job's item.
func (j *theJob) number(text string) (int, error) {
	var n int
	_, err := fmt.Sscanf(text, j.spec.Name+" %d", &n)
	return n, err
}

// traces counts what in a history shows which way its workflow went: signals that it received, by
// name, markers, by kind, and updates, as "update".
func traces(h *history.History) map[string]int {
	found := map[string]int{}
	for _, e := range h.GetEvents() {
		switch {
		case e.GetWorkflowExecutionSignaledEventAttributes() != nil:
			found[e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName()]++
		case e.GetMarkerRecordedEventAttributes() != nil:
			found[e.GetMarkerRecordedEventAttributes().GetMarkerName()]++
		case e.GetWorkflowExecutionUpdateAcceptedEventAttributes() != nil:
			found["update"]++
		}
	}
	return found
}

// mortal is a worker that can die with a batch in hand: all that the server sees of it is silence.
type mortal struct {
	interceptor.ClientInterceptorBase
	interceptor.WorkerInterceptorBase
	j    *theJob
	dead chan struct{} // closed when silence is no longer needed
}

func (m *mortal) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &mortalActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, m}
}

type mortalActivity struct {
	interceptor.ActivityInboundInterceptorBase
	mortal *mortal
}

func (a *mortalActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	a.mortal.j.mu.Lock()
	dies, fails := a.mortal.j.dies, a.mortal.j.fails
	a.mortal.j.mu.Unlock()
	input, err := inputOf(activity.GetInfo(ctx).ActivityType.Name, in.Args[0].(converter.EncodedValues))
	if err != nil {
		return nil, err
	}
	if fails != nil {
		if err := fails(input); err != nil {
			return nil, err
		}
	}
	if batch, ok := input.(wire.ProcessInput); ok && dies != nil && dies(batch) {
		activity.RecordHeartbeat(ctx, wire.Hint{First: batch.Batch.First + 2, Count: batch.Batch.Count - 2})
		<-a.mortal.dead
		return nil, errors.New("it is dead")
	}
	return a.Next.ExecuteActivity(ctx, in)
}

// inputOf is the input of an activity that runs a batch or plans, and nil for others.
func inputOf(kind string, args converter.EncodedValues) (any, error) {
	switch kind {
	case string(wire.ActivityProcess):
		var in wire.ProcessInput
		err := args.Get(&in)
		return in, err
	case "Plan":
		var in wire.PlanInput
		err := args.Get(&in)
		return in, err
	}
	return nil, nil
}

// runOutage is a job whose store is out of reach for a while, first for its plan and then for some batches: it
// shows what it waits for, and no batch loses an attempt.
func runOutage(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 120, "")
	j.spec.BatchItems, j.spec.Attempts = 5, 1
	var seen atomic.Bool
	var out atomic.Int64
	j.fails = func(input any) error {
		batch, ok := input.(wire.ProcessInput)
		if _, plan := input.(wire.PlanInput); plan && !seen.Load() || ok && batch.Batch.First >= 80 && out.Add(1) <= 8 {
			return temporal.NewApplicationError("writing s3://bucket/key: 503 Slow Down", job.ErrorOutage)
		}
		return nil
	}
	j.start(jobs.StartOptions{})
	require.Eventually(t, func() bool {
		report, err := j.run.Report(t.Context())
		return err == nil && report.Outage != nil && report.Outage.Tries > 0 && strings.Contains(report.Outage.Message, "503 Slow Down")
	}, 10*time.Minute, 50*time.Millisecond)
	seen.Store(true)
	report := j.completes()
	require.EqualValues(t, 120, report.OK)
	require.EqualValues(t, 8, report.Retries)
	require.Nil(t, report.Outage)
	return j, report
}

// runNarrowed is a job with an item that everybody dies of who has it in hand: the leg narrows its
// batch down to it, and has it recorded.
func runNarrowed(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 120, "")
	j.spec.BatchItems, j.spec.Attempts, j.spec.Expiry = 5, 1, time.Second
	const bad = 94 // the last of its batch, in the leg: most of what is suspected with it survives
	j.dies = func(in wire.ProcessInput) bool {
		taken := in.Batch.Count
		if in.Take > 0 {
			taken = in.Take
		}
		return in.Verdict == nil && in.Batch.First <= bad && bad < in.Batch.First+taken
	}
	report := j.start(jobs.StartOptions{}).completes()
	require.EqualValues(t, 1, report.Failed)
	require.EqualValues(t, 119, report.OK)
	require.EqualValues(t, bad, report.FirstError.Item)
	require.Equal(t, job.KindCrash, report.FirstError.Kind)
	require.Equal(t, "WorkerDied", report.FirstError.Error.Type)
	require.EqualValues(t, 1, report.Isolations)
	require.EqualValues(t, 3, report.Expiries, "of the batch, and twice of the item alone")
	require.Zero(t, traces(j.histories(report.Legs)["leg-1"])["Version"], "nothing is gated yet")
	return j, report
}

// runTolerant is a job with more failed items than it tolerates: the leg in which they are reports them
// in time.
func runTolerant(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	j.spec.MaxFailed = "20"
	var begun atomic.Int64
	j.on(func(ctx context.Context, text string) (string, error) {
		n, err := j.number(text)
		if err != nil || n < 160 { // the first page, which is no leg's
			return text, err
		}
		if begun.Add(1) > 80 { // of which some thirty may be in batches that continue
			<-worker.Stopping(ctx) // what is left is not begun before the job knows
			return text, nil
		}
		return "", errors.New("no such customer")
	})
	report, err := j.start(jobs.StartOptions{}).wait()
	var failed *jobs.FailedError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, job.ErrorTooMany, report.Error.Type)
	require.Greater(t, report.Failed, int64(20))
	require.LessOrEqual(t, report.Failed, int64(80), "nothing new was begun")
	require.Less(t, report.OK, int64(400-80))
	require.NoFileExists(t, j.spec.Output)
	require.Positive(t, traces(j.histories(report.Legs)["job"])["progress of leg"])
	require.Positive(t, traces(j.histories(report.Legs)["leg-1"])["stop the leg"])
	return j, report
}

// runSlowed is a job with a rate, whose settings are changed while a leg runs and whose handler then
// asks for less.
func runSlowed(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 300, "")
	j.spec.JobRate, j.spec.Window = 2_000_000, 3
	var ended, refused atomic.Int64
	begun, released, others := make(chan struct{}), make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	end := sync.OnceFunc(func() { close(others) })
	j.on(func(_ context.Context, text string) (string, error) {
		n, err := j.number(text)
		if n >= 201 {
			begin()
			<-released
		}
		if n < 299 {
			if ended.Add(1) == 299 {
				end()
			}
			return text, err
		}
		<-others
		if refused.Add(1) <= 5 { // four calls in a row: the rate must be the reason. An answer to an item before may come late.
			return "", worker.SlowDown(200 * time.Millisecond)
		}
		return text, err
	})
	j.start(jobs.StartOptions{})
	<-begun
	window, rate := 6, job.Rate(1_500_000)
	now, err := j.run.Set(t.Context(), job.Settings{Window: &window, Rate: &rate})
	require.NoError(t, err)
	require.Equal(t, window, *now.Window)
	close(released)
	report := j.completes()
	require.EqualValues(t, 300, report.OK, "an item that was not done because of a slow-down is repeated")
	require.EqualValues(t, 1, report.SlowDowns)
	require.Zero(t, report.Retries)
	require.Equal(t, rate, *report.Settings.Rate)
	inJob, inLeg := traces(j.histories(report.Legs)["job"]), traces(j.histories(report.Legs)["leg-1"])
	require.Equal(t, 1, inJob["update"])
	require.Equal(t, 1, inJob["slow down"])
	require.Positive(t, inLeg["places to leg"])
	require.GreaterOrEqual(t, inLeg["limits of leg"], 2, "of the settings, and of the request")
	return j, report
}
