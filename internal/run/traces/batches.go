package traces

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Batch is an execution of a batch that begins.
type Batch struct {
	Ref                 wire.Ref
	Batch               wire.Batch
	Pool, Worker, Stage string
	// Workflow is the run ID of the workflow that has dispatched it, Activity the ID of the execution.
	Workflow, Activity string
}

// Execution makes the spans of an execution's calls. A nil one makes none.
type Execution struct {
	tracer trace.Tracer
	span   trace.Span
	ctx    context.Context // with the span

	mu    sync.Mutex
	calls int
	tried []tried // calls whose items are called again, the latest last
}

// tried is a call that some of the items may be called again from.
type tried struct {
	first, end int64 // ordinals
	span       trace.SpanContext
}

const (
	// mostCalls is how many calls of an execution have spans of their own: handlers of single items make millions.
	mostCalls = 100
	// mostTried bounds what is remembered of calls that failed.
	mostTried = 32
)

// Batch begins the span of an execution. It is linked to that of the execution before, if there was one.
func (t *Tracer) Batch(b Batch) *Execution {
	if t == nil {
		return nil
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), contextOf(b.Ref.Run, b.Workflow))
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		keyJob.String(b.Ref.Job), keyRun.String(b.Ref.Run), keyPool.String(b.Pool), keyWorker.String(b.Worker),
		keyBatch.String(b.Batch.String()), keyFirst.Int64(b.Batch.First), keyItems.Int64(b.Batch.Count),
	)}
	if b.Stage != "" {
		options = append(options, trace.WithAttributes(keyStage.String(b.Stage)))
	}
	if number, before := executionOf(b.Activity); number > 0 {
		options = append(options, trace.WithAttributes(keyTry.Int(number)))
		if before != "" {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: contextOf(b.Ref.Run, before)}))
		}
	}
	ctx, span := t.tracer.Start(choosing(ctx, b.Ref.Run, b.Activity), "batch", options...)
	return &Execution{tracer: t.tracer, span: span, ctx: context.WithValue(ctx, chosenKey{}, nil)}
}

// executionOf returns the number of an execution of its batch, from 1, and the ID of the one before; "" if it is the
// first. The ID ends in the number.
func executionOf(activity string) (number int, before string) {
	dot := strings.LastIndexByte(activity, '.')
	number, err := strconv.Atoi(activity[dot+1:])
	if dot < 0 || err != nil || number <= 1 {
		return number, ""
	}
	return number, activity[:dot+1] + strconv.Itoa(number-1)
}

// End ends the span of the execution, with what it has recorded.
func (e *Execution) End(items, failed int64, err error) {
	if e == nil {
		return
	}
	e.mu.Lock()
	made := e.calls
	e.mu.Unlock()
	e.span.SetAttributes(keyCalls.Int(made), keyItems.Int64(items), keyFailed.Int64(failed))
	if err != nil {
		e.span.SetStatus(codes.Error, kindOf(err))
	}
	e.span.End()
}

// Spans returns what makes the spans of calls; nil if nothing does.
func (e *Execution) Spans() calls.Spans {
	if e == nil {
		return nil
	}
	return e
}

// Call is one of calls.Spans. The span is linked to that of the call that had the first item before.
func (e *Execution) Call(first int64, items int) calls.CallSpan {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls++; e.calls > mostCalls {
		return uncounted{e.span.SpanContext()}
	}
	options := []trace.SpanStartOption{trace.WithAttributes(keyFirst.Int64(first), keyItems.Int(items))}
	for i := len(e.tried) - 1; i >= 0; i-- {
		if t := e.tried[i]; first >= t.first && first < t.end {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: t.span}))
			break
		}
	}
	_, span := e.tracer.Start(e.ctx, "call", options...)
	return &callSpan{of: e, span: span, first: first, items: items}
}

type callSpan struct {
	of    *Execution
	span  trace.Span
	first int64
	items int
}

func (s *callSpan) Context() trace.SpanContext { return s.span.SpanContext() }

func (s *callSpan) End(stats calls.CallStats) {
	s.span.SetAttributes(keyFailed.Int(stats.Failed))
	if stats.Cut {
		s.span.SetAttributes(keyCut.Bool(true))
	}
	if stats.Fault != "" {
		s.span.SetAttributes(keyFault.String(stats.Fault))
		s.span.SetStatus(codes.Error, stats.Fault)
	}
	s.span.End()
	if stats.Items < s.items {
		s.of.remember(tried{s.first, s.first + int64(s.items), s.span.SpanContext()})
	}
}

func (e *Execution) remember(t tried) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tried = append(e.tried, t); len(e.tried) > mostTried {
		e.tried = e.tried[1:]
	}
}

// uncounted is a call without a span of its own: what it calls is a child of the batch's.
type uncounted struct{ batch trace.SpanContext }

func (u uncounted) Context() trace.SpanContext { return u.batch }
func (uncounted) End(calls.CallStats)          {}
