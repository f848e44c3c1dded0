package calls

import (
	"sync"

	"github.com/stint-run/stint/internal/trap"
)

// Goroutines run lanes. While somebody uses them, those of lanes that have ended are kept for others: their stacks have
// grown to what a handler needs, which is most of what a new one costs. The zero value is ready. It is safe for
// concurrent use.
type Goroutines struct {
	mu    sync.Mutex
	users int
	idle  []*Goroutine
}

// Goroutine is one of [Goroutines].
type Goroutine struct {
	name []byte
	work chan task // closed at its end
}

// task is what a goroutine is to do.
type task struct {
	name   string
	fn     func(*Goroutine)
	failed func(error)
}

// Use keeps goroutines until the returned function is called, which is idempotent.
func (g *Goroutines) Use() (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.users--; g.users > 0 {
			return
		}
		for _, one := range g.idle {
			close(one.work)
		}
		g.idle = nil
	})
}

// Go runs fn in a goroutine, which it may end. If fn panics, failed is called there with a *trap.DefectError, which
// names what fn does.
func (g *Goroutines) Go(name string, fn func(*Goroutine), failed func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := task{name, fn, failed}
	if last := len(g.idle) - 1; last >= 0 {
		g.idle[last].work <- t // there is room
		g.idle[last] = nil
		g.idle = g.idle[:last]
		return
	}
	one := &Goroutine{work: make(chan task, 1)}
	one.work <- t
	go func() {
		one.name = goroutineName()
		for t := range one.work {
			if err := trap.Run(t.name, func() { t.fn(one) }); err != nil {
				t.failed(err)
			}
			if !g.keep(one) {
				return
			}
		}
	}()
}

// keep keeps a goroutine that has nothing to do, if it is still used.
func (g *Goroutines) keep(one *Goroutine) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users == 0 {
		return false
	}
	g.idle = append(g.idle, one)
	return true
}
