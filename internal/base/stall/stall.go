// Package stall notices operations on files that do not end, as on a network file system whose server is away.
// Nothing interrupts such an operation: whoever waits for it has to give it up.
//
// Reading, writing and joining have a timer of their own, because a call's does not cover them. A bucket's connection
// ends if no byte moves on it (store/bucket/s3.go); it is of HTTP/1, so that no other request moves bytes on it.
// Nothing interrupts an operation on a file; internal/base/stall notices one that does not end, and the activity that
// waits for it is given up, while the operation may continue beside the next attempt.
package stall

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Meter knows the operations that one piece of work has in hand. It is safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	ops     map[*Op]struct{}
	givenUp atomic.Pointer[Error]
}

// NewMeter returns a Meter that knows of no operation.
func NewMeter() *Meter { return &Meter{ops: map[*Op]struct{}{}} }

type meterKey struct{}

// With returns a context of which the operations are known to the Meter.
func With(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// Of returns the context's Meter; nil if it has none.
func Of(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}

// Op is an operation that is repeated, such as reading the next bytes of a file: one at a time. A nil Op is
// of work that nobody measures.
type Op struct {
	meter *Meter
	what  string // "reading"
	where string
	began atomic.Int64 // in Unix nanoseconds; 0: not in hand
	inner *Meter       // stands for all operations of another Meter, if it is set
}

// New returns an operation of the context's Meter. The caller closes it.
func New(ctx context.Context, what, where string) *Op {
	m := Of(ctx)
	if m == nil {
		return nil
	}
	return m.add(&Op{meter: m, what: what, where: where})
}

// Begin is New for an operation that begins now and is not repeated. The caller closes it when it has ended.
func Begin(ctx context.Context, what, where string) *Op {
	op := New(ctx, what, where)
	op.Begin()
	return op
}

// Include has the context's Meter know the operations of another one until the Op is closed.
func Include(ctx context.Context, other *Meter) *Op {
	m := Of(ctx)
	if m == nil || other == nil {
		return nil
	}
	return m.add(&Op{meter: m, inner: other})
}

func (m *Meter) add(op *Op) *Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops[op] = struct{}{}
	return op
}

// Begin notes that the operation begins.
func (o *Op) Begin() {
	if o != nil {
		o.began.Store(time.Now().UnixNano())
	}
}

// End notes that it has ended.
func (o *Op) End() {
	if o != nil {
		o.began.Store(0)
	}
}

// Close notes that it will not be repeated.
func (o *Op) Close() {
	if o == nil {
		return
	}
	o.meter.mu.Lock()
	defer o.meter.mu.Unlock()
	delete(o.meter.ops, o)
}

// Error reports an operation that has not ended in time. It may still go on.
type Error struct {
	What, Where string
	For         time.Duration // how long it has taken so far
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: nothing has happened for %v", e.What, e.Where, e.For.Round(time.Millisecond))
}

// InHand returns how many operations have not been closed.
func (m *Meter) InHand() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ops)
}

// GiveUp gives the work up if Stuck returns an error, and returns that.
func (m *Meter) GiveUp(limit time.Duration) error {
	stuck := m.Stuck(limit)
	if stuck == nil {
		return nil
	}
	m.givenUp.Store(stuck)
	return stuck
}

// GivenUp returns why nobody waits for the context's work any more; nil if somebody does.
func GivenUp(ctx context.Context) error {
	if m := Of(ctx); m != nil && m.givenUp.Load() != nil {
		return m.givenUp.Load()
	}
	return nil
}

// Stuck returns what has been in hand for longer than limit; nil if nothing has.
func (m *Meter) Stuck(limit time.Duration) *Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for op := range m.ops {
		if op.inner != nil {
			if err := op.inner.Stuck(limit); err != nil {
				return err
			}
			continue
		}
		began := op.began.Load()
		if took := time.Duration(time.Now().UnixNano() - began); began != 0 && took > limit {
			return &Error{What: op.what, Where: op.where, For: took}
		}
	}
	return nil
}
