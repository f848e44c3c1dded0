package calls

import "sync"

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
	work chan func(*Goroutine) // closed at its end
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

// Go runs fn in a goroutine, which it may end.
func (g *Goroutines) Go(fn func(*Goroutine)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := len(g.idle) - 1; last >= 0 {
		g.idle[last].work <- fn // there is room
		g.idle[last] = nil
		g.idle = g.idle[:last]
		return
	}
	one := &Goroutine{work: make(chan func(*Goroutine), 1)}
	one.work <- fn
	go func() {
		one.name = goroutineName()
		for fn := range one.work {
			fn(one)
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
