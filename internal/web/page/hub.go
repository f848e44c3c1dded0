package page

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
)

const (
	// askEvery is how often what an open page shows is asked for at most.
	askEvery = time.Second
	// share is how many times its cost passes until the same is asked for again: all open pages together keep the server
	// busy for a twentieth of a core at most.
	share = 20
	// askCost is what a question to a job costs the server and its workers at most: an answer that takes longer is
	// waited for.
	askCost = 10 * time.Millisecond
	// maxViews is how many different things open pages may show at once.
	maxViews = 200
)

// answer is what has been asked for.
type answer struct {
	said any
	err  error
}

// hub asks for what open pages show: once, however many pages show the same, and for nothing while no page is open.
type hub struct {
	failed func(error)

	mu     sync.Mutex
	views  map[string]*view
	closed bool
	end    chan struct{} // is closed at the end
	asking sync.WaitGroup
}

// view is one thing that open pages show.
type view struct {
	last     *answer // nil: there is none yet
	at       time.Time
	watchers map[*watcher]bool
	end      context.CancelFunc
}

// watcher is an open page.
type watcher struct{ news chan answer } // holds the latest one

func newHub(failed func(error)) *hub {
	return &hub{failed: failed, views: map[string]*view{}, end: make(chan struct{})}
}

// errBusy says that pages show too many different things.
var errBusy = errors.New("too many different pages are open: close some")

// watch returns a channel with the latest answer, until leave is called.
func (h *hub) watch(s source) (news <-chan answer, leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[s.key]
	switch {
	case h.closed:
		return nil, nil, errStarting
	case v == nil && len(h.views) >= maxViews:
		return nil, nil, errBusy
	case v == nil:
		v = h.open(s)
	}
	w := &watcher{news: make(chan answer, 1)}
	v.watchers[w] = true
	if v.last != nil {
		w.news <- *v.last
	}
	return w.news, func() { h.leave(s.key, v, w) }, nil
}

// open begins to ask for something. The lock is held.
func (h *hub) open(s source) *view {
	ctx, cancel := context.WithCancel(context.Background())
	v := &view{watchers: map[*watcher]bool{}, end: cancel}
	h.views[s.key] = v
	h.asking.Add(1)
	trap.Watched("keeping a page up to date", h.failed, func() {
		defer h.asking.Done()
		h.keep(ctx, v, s)
	})
	return v
}

// leave ends the asking once nobody shows it any more.
func (h *hub) leave(key string, v *view, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(v.watchers, w)
	if len(v.watchers) == 0 && h.views[key] == v {
		delete(h.views, key)
		v.end()
	}
}

// keep asks again and again.
func (h *hub) keep(ctx context.Context, v *view, s source) {
	for {
		began := time.Now()
		said, asks, err := s.answer(ctx)
		took := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		if !backoff.Wait(h.publish(v, answer{said, err}, min(took, time.Duration(max(1, asks))*askCost)), ctx.Done()) {
			return
		}
	}
}

// publish gives an answer to all who show it, and returns how long to wait then.
func (h *hub) publish(v *view, a answer, cost time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.last, v.at = &a, time.Now()
	for w := range v.watchers {
		select {
		case <-w.news: // an older one that nobody has taken
		default:
		}
		w.news <- a
	}
	return pause(cost, len(h.views))
}

// pause returns how long to wait after an answer that cost so much, while so many things are asked for.
func pause(cost time.Duration, views int) time.Duration {
	return max(askEvery, share*time.Duration(views)*cost)
}

// now returns an answer of the last second that open pages have got, or asks.
func (h *hub) now(ctx context.Context, s source) (any, error) {
	h.mu.Lock()
	if v := h.views[s.key]; v != nil && v.last != nil && time.Since(v.at) < askEvery {
		last := *v.last
		h.mu.Unlock()
		return last.said, last.err
	}
	h.mu.Unlock()
	said, _, err := s.answer(ctx)
	return said, err
}

// close ends all asking, and what waits for the end.
func (h *hub) close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.end)
	}
	for _, v := range h.views {
		v.end()
	}
	h.mu.Unlock()
	h.asking.Wait()
}
