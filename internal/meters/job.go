package meters

import (
	"context"
	"time"

	"github.com/stint-run/stint/internal/limits"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Job counts what a worker does for one job. It is safe for concurrent use, and fast: its labels
// are made once.
type Job struct {
	m        *Meters
	plain    []metric.AddOption
	recorded []metric.RecordOption
	outcomes map[string][]metric.AddOption
}

// Outcomes of calls, batches and items. A call that failed as a whole has the kind of its failure (see
// [limits.FailureKinds]); any other counts as Other.
const (
	OK      = "ok"
	Failed  = "failed"
	Dropped = "dropped"
	Cut     = "cut" // a call that ended before its last item because its batch ended
	Other   = "other"
)

// Job returns the series of a job. The caller limits the number of jobs.
func (m *Meters) Job(name string) *Job {
	label := attribute.String("job", name)
	own := m.with(label)
	j := &Job{
		m: m, plain: []metric.AddOption{own}, recorded: []metric.RecordOption{own},
		outcomes: map[string][]metric.AddOption{},
	}
	outcomes := []string{OK, Failed, Dropped, Cut, Other}
	for _, kind := range limits.FailureKinds {
		outcomes = append(outcomes, kind.Name)
	}
	for _, o := range outcomes {
		j.outcomes[o] = []metric.AddOption{m.with(label, outcome(o))}
	}
	return j
}

// Begin makes the series that every job has exist from its start.
func (j *Job) Begin() {
	ctx := context.Background()
	for _, o := range []string{OK, Failed, Dropped} {
		j.m.items.Add(ctx, 0, j.outcomes[o]...)
	}
	for _, o := range []string{OK, Failed} {
		j.m.batches.Add(ctx, 0, j.outcomes[o]...)
	}
	j.m.calls.Add(ctx, 0, j.outcomes[OK]...)
	for _, c := range []metric.Int64Counter{j.m.retries, j.m.expiries, j.m.isolations} {
		c.Add(ctx, 0, j.plain...)
	}
}

// Call counts a call with that many outcomes.
func (j *Job) Call(outcome string, items int, took time.Duration) {
	ctx := context.Background()
	labels := j.outcomes[outcome]
	if labels == nil {
		labels = j.outcomes[Other]
	}
	j.m.calls.Add(ctx, 1, labels...)
	j.m.callTime.Record(ctx, took.Seconds(), j.recorded...)
	if items > 0 {
		j.m.callItems.Record(ctx, int64(items), j.recorded...)
	}
}

// Batch counts an execution of a batch.
func (j *Job) Batch(outcome string) { j.m.batches.Add(context.Background(), 1, j.outcomes[outcome]...) }

// Items counts items with an outcome.
func (j *Job) Items(ok, dropped, failed int64) {
	j.add(j.m.items, ok, j.outcomes[OK])
	j.add(j.m.items, dropped, j.outcomes[Dropped])
	j.add(j.m.items, failed, j.outcomes[Failed])
}

// Repairs counts what was done about failures.
func (j *Job) Repairs(retries, expiries, isolations int64) {
	j.add(j.m.retries, retries, j.plain)
	j.add(j.m.expiries, expiries, j.plain)
	j.add(j.m.isolations, isolations, j.plain)
}

func (j *Job) add(c metric.Int64Counter, n int64, labels []metric.AddOption) {
	if n != 0 {
		c.Add(context.Background(), n, labels...)
	}
}
