package starter_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// faultyStore is a bucket that does not always do as it should, at the end of a link that does not, either.
type faultyStore struct {
	*bucket // reached directly
	link    *link
	refuses atomic.Bool // whether every request is answered with 503
	stops   atomic.Bool // whether bodies of answers stop in the middle,
	goesOn  valve       // until this is open
}

func newFaultyStore(t *testing.T) *faultyStore {
	t.Helper()
	s := &faultyStore{}
	s.bucket = newBucketBehind(t, func(service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case s.refuses.Load():
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, "<Error><Code>ServiceUnavailable</Code><Message>Please try again later.</Message></Error>") // who asked may be gone
			case s.stops.Load():
				service.ServeHTTP(&halting{w, &s.goesOn}, r)
			default:
				service.ServeHTTP(w, r)
			}
		})
	})
	t.Cleanup(s.goesOn.open)
	s.link = newLink(t, strings.TrimPrefix(s.url, "http://"))
	return s
}

// at is the location of a key at the other end of the link.
func (s *faultyStore) at(key string) string {
	return (&bucket{url: "http://" + s.link.address}).at(key)
}

// halting is an answer whose body stops half way.
type halting struct {
	http.ResponseWriter
	goesOn *valve
}

func (h *halting) Write(p []byte) (int, error) {
	half := len(p) / 2
	n, err := h.ResponseWriter.Write(p[:half])
	if err != nil {
		return n, err
	}
	_ = http.NewResponseController(h.ResponseWriter).Flush() // the next write fails as well
	h.goesOn.wait()
	m, err := h.ResponseWriter.Write(p[half:])
	return n + m, err
}

var storeFaults = []fault{
	{"the store answers 503", allInHand, func(c *chaos) { c.refuseWhile(func() {}) }},
	{"reads stop in the middle", 0, (*chaos).stopReads},
	{"workers are cut off from the store", allInHand, (*chaos).cutStore},
	{"packets between workers and store get lost", allInHand, (*chaos).stallStore},
	{"all workers are killed while the store answers 503", 2 * allInHand, func(c *chaos) { c.refuseWhile(c.killWorkers) }},
	{"the server is killed while the store answers 503", 2 * allInHand, func(c *chaos) { c.refuseWhile(c.killServer) }},
}

// refuseWhile has the store answer 503 for as long as an outage lasts, and something else happen half way.
func (c *chaos) refuseWhile(other func()) {
	c.store.refuses.Store(true)
	defer c.store.refuses.Store(false)
	c.meanwhile(other)
}

// stopReads has reads stop, in a long round for longer than a worker waits.
func (c *chaos) stopReads() {
	c.store.goesOn.shut()
	c.store.stops.Store(true)
	time.Sleep(2 * c.lasts) // this is the fault, not a wait for something
	c.store.stops.Store(false)
	c.store.goesOn.open()
}

func (c *chaos) cutStore() { c.store.link.cutFor(c.t, c.lasts) }

// stallStore has nothing get through, in a long round for longer than a worker waits.
func (c *chaos) stallStore() { c.store.link.stallFor(2 * c.lasts) }

// TestChaos_StoreShort is a short round of TestChaos_Store.
func TestChaos_StoreShort(t *testing.T) {
	t.Parallel()
	withstandStore(t, 10_000, 3, 2*time.Second)
}

// TestChaos_Store: outages of the store of input and output, in the middle and at the end, cost time alone.
func TestChaos_Store(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstandStore(t, 100_000, len(storeFaults), 20*time.Second) })
}

// withstandStore is withstand for outages of a store that last so long. One of them comes after the last item.
func withstandStore(t *testing.T, n, number int, lasts time.Duration) {
	t.Helper()
	store := newFaultyStore(t)
	c := newChaos(t, n)
	c.store, c.lasts = store, lasts
	store.put("in.txt", numbers(n))
	c.begin(store.at("in.txt"), store.at("out.txt"))
	chosen := c.choose(storeFaults, number)
	c.rage(chosen[1:])
	c.happens(n, chosen[0])
	c.end(func() string { return store.get("out.txt") })
}
