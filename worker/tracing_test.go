package worker_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-run/stint/internal/run/traces"
	"github.com/stint-run/stint/internal/temporal/embedded"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/api/enums/v1"
)

// recorded are spans by their IDs.
type recorded map[trace.SpanID]tracetest.SpanStub

// named returns those of a name.
func (r recorded) named(name string) (spans []tracetest.SpanStub) {
	for _, s := range r {
		if s.Name == name {
			spans = append(spans, s)
		}
	}
	return spans
}

func number(s tracetest.SpanStub, key attribute.Key) int64 {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.AsInt64()
		}
	}
	return 0
}

// M8: a job is one trace of job, legs, batches and calls, in which executions and calls name those that they repeat; a
// handler's own spans are children of its calls, and the histories are those of a job that nobody traces.
func TestM8_Tree(t *testing.T) {
	t.Parallel()
	c := setup(t)
	exporter := tracetest.NewInMemoryExporter()
	tracer := traces.New(sdktrace.WithSyncer(exporter))
	var failed atomic.Bool
	inside, held := make(chan trace.SpanContext, 1), make(chan struct{}, 1)
	h := worker.Batch(func(ctx context.Context, items []int) ([]int, error) {
		switch {
		case items[0] == 0 && !failed.Swap(true):
			inside <- trace.SpanContextFromContext(ctx)
			return nil, errors.New("once")
		case items[0] == 2:
			held <- struct{}{}
			<-worker.Stopping(ctx)
		}
		return items, nil
	})
	o := worker.Options{Slots: 4, OneItem: true}
	embedded.Trace(&o, tracer)
	first := c.serve(h, o)
	const n = 200
	var input strings.Builder
	for i := range n {
		input.WriteString(strconv.Itoa(i) + "\n")
	}
	run, _ := c.start("in.jsonl", input.String(), func(s *job.Spec) { s.BatchItems = 2; s.Window = 400 })
	<-held
	first.drain() // the batch of items 2 and 3 has a rest, for another worker
	o.Name = "second"
	c.serve(h, o)
	report := c.wait(run)
	require.EqualValues(t, n, report.OK)

	all := recorded{}
	for _, s := range exporter.GetSpans() {
		require.NotContains(t, all, s.SpanContext.SpanID(), s.Name)
		all[s.SpanContext.SpanID()] = s
	}
	root := all.named("job")
	require.Len(t, root, 1)
	require.False(t, root[0].Parent.IsValid())
	for _, s := range all {
		require.Equal(t, root[0].SpanContext.TraceID(), s.SpanContext.TraceID())
		parents := map[string][]string{"leg": {"job"}, "batch": {"job", "leg"}, "call": {"batch"}}[s.Name]
		if parents != nil {
			require.Contains(t, parents, all[s.Parent.SpanID()].Name, s.Name)
		}
		for _, link := range s.Links {
			before := all[link.SpanContext.SpanID()]
			require.Equal(t, s.Name, before.Name)
			require.GreaterOrEqual(t, number(s, "stint.first_item"), number(before, "stint.first_item"))
			require.False(t, s.StartTime.Before(before.EndTime), "it repeats what has ended")
		}
	}
	require.GreaterOrEqual(t, len(all.named("batch")), n/2+1)
	require.Len(t, all.named("leg"), report.Legs-1, "the first one is the job's own")

	linked := func(name string, first int64) (links int) {
		for _, s := range all.named(name) {
			if number(s, "stint.first_item") == first {
				links += len(s.Links)
			}
		}
		return links
	}
	require.Equal(t, 1, linked("call", 0), "the call that failed was made again")
	require.Zero(t, linked("batch", 2))
	require.Equal(t, 1, linked("batch", 3), "the rest is linked to what came before")
	require.Equal(t, "call", all[(<-inside).SpanID()].Name)

	history := c.client.GetWorkflowHistory(t.Context(), "job", run.ID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		require.Empty(t, event.GetActivityTaskScheduledEventAttributes().GetHeader().GetFields())
		require.Empty(t, event.GetWorkflowExecutionStartedEventAttributes().GetHeader().GetFields())
	}
}
