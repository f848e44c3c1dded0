package modeltest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// side is what goes on beside the workflows: an activity, or a signal on its way. It is a goroutine that moves while
// nothing else does, and no coroutine of the environment: whatever happens, that has all its coroutines look whether it
// concerns them, and there are many more activities than workflows.
type side struct {
	v      *server
	ctx    workflow.Context // of the workflow that has asked for it
	turn   chan struct{}    // closed: nobody does anything any more
	moved  chan struct{}    // it pauses, or has ended
	ended  bool
	failed any // what it has panicked with
}

// aside begins something beside a workflow. It has come to its first pause when this returns.
func (v *server) aside(ctx workflow.Context, do func(s *side)) {
	s := &side{v: v, ctx: ctx, turn: make(chan struct{}), moved: make(chan struct{})}
	v.sides = append(v.sides, s)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				s.failed = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			s.ended = true
			s.moved <- struct{}{}
		}()
		do(s)
	}()
	s.await()
}

// pause lets the others continue.
func (s *side) pause() {
	v := s.v
	v.env.RegisterDelayedCallback(func() {
		if !v.over { // nobody does anything after the end
			s.turn <- struct{}{}
			s.await()
		}
	}, v.step())
	s.moved <- struct{}{}
	if _, goes := <-s.turn; !goes {
		runtime.Goexit()
	}
}

// await waits until it pauses, or has ended.
func (s *side) await() {
	<-s.moved
	if s.failed != nil {
		panic(s.failed)
	}
	if s.ended {
		s.v.sides = slices.DeleteFunc(s.v.sides, func(other *side) bool { return other == s })
	}
}

// endSides ends all that still goes on, one after the other.
func (v *server) endSides() {
	for _, s := range v.sides {
		if !s.ended {
			close(s.turn)
			<-s.moved
		}
	}
	v.sides = nil
}
