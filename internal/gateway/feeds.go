package gateway

import (
	"sync"
	"time"

	"github.com/stint-run/stint/jobs"
)

// maxIdle is how many feeds are kept ready for the next request.
const maxIdle = 64

// feeds are the feeds in use, and those used last. Requests for one feed share a client, so that what they send goes to the
// feed in a few exchanges.
type feeds struct {
	open func(name string) Feed

	mu     sync.Mutex
	known  map[string]*shared
	idle   int
	closed bool
}

type shared struct {
	Feed
	users int
	last  time.Time // used
}

func newFeeds(open func(name string) Feed) *feeds {
	return &feeds{open: open, known: map[string]*shared{}}
}

// take returns the feed of that name, until done is called.
func (f *feeds) take(name string) (feed Feed, done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, nil, &jobs.FeedError{Code: jobs.CodeReleased}
	}
	s := f.known[name]
	switch {
	case s == nil:
		s = &shared{Feed: f.open(name)}
		f.known[name] = s
	case s.users == 0:
		f.idle--
	}
	s.users++
	return s.Feed, func() { f.done(s) }, nil
}

func (f *feeds) done(s *shared) {
	if old := f.idler(s); old != nil {
		old.Release()
	}
}

// idler notes that a request does not use a feed any more. It returns the feed that is to be released for that, or nil.
func (f *feeds) idler(s *shared) *shared {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.users--
	s.last = time.Now()
	if s.users > 0 || f.closed {
		return nil
	}
	if f.idle++; f.idle <= maxIdle {
		return nil
	}
	oldest := ""
	for name, other := range f.known {
		if other.users == 0 && (oldest == "" || other.last.Before(f.known[oldest].last)) {
			oldest = name
		}
	}
	old := f.known[oldest]
	delete(f.known, oldest)
	f.idle--
	return old
}

// close releases all feeds.
func (f *feeds) close() {
	f.mu.Lock()
	f.closed = true
	known := f.known
	f.known = nil
	f.mu.Unlock()
	for _, s := range known {
		s.Release()
	}
}
