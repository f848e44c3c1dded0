package worker_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// keyed is a server that notes the key of each request by the item in it. Requests of one item have no answer the first
// times, and those of another are refused.
type keyed struct {
	lost, refused string
	reached       chan struct{} // for each request whose answer is lost
	url           string

	mu    sync.Mutex
	times int // that answers are still lost
	keys  map[string][]string
}

func (c *cluster) keyed(lost, refused string, times int) *keyed {
	s := &keyed{lost: lost, refused: refused, times: times, reached: make(chan struct{}, times), keys: map[string][]string{}}
	server := httptest.NewServer(s)
	c.t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	item := string(body)
	s.mu.Lock()
	s.keys[item] = append(s.keys[item], r.Header.Get("Idempotency-Key"))
	lost := item == s.lost && s.times > 0
	if lost {
		s.times--
	}
	s.mu.Unlock()
	switch {
	case lost:
		s.reached <- struct{}{}
		<-r.Context().Done()
	case item == s.refused:
		w.WriteHeader(http.StatusUnprocessableEntity)
	default:
		_, _ = w.Write(body)
	}
}

// of returns the keys of the requests of an item so far.
func (s *keyed) of(item string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.keys[item]...)
}

// differ requires that each item has its own key.
func (s *keyed) differ(t *testing.T, items int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := map[string]string{}
	for item, keys := range s.keys {
		for _, key := range keys {
			require.Equal(t, item, orNew(of, key, item), "the key %s", key)
		}
	}
	require.Len(t, s.keys, items)
}

func orNew(of map[string]string, key, item string) string {
	if _, known := of[key]; !known {
		of[key] = item
	}
	return of[key]
}

// end ends a run in the middle of a call, whose answer is lost.
func (c *cluster) end(run *jobs.Run, how string) {
	c.t.Helper()
	if how == "terminate" {
		require.NoError(c.t, c.client.TerminateWorkflow(c.t.Context(), "job", "", "test"))
		return
	}
	require.NoError(c.t, run.Stop(c.t.Context(), job.Stop{Grace: "1ms"}))
	require.Equal(c.t, job.Stopped, c.wait(run).State)
}

// A request whose answer was lost is repeated with the same key by the runs that continue the job, and by no other.
func TestHTTP_KeyOverResume(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stop", "terminate"} {
		for _, lost := range []int{0, 5} { // before anything is done, and after
			t.Run(fmt.Sprint(how, "/", lost), func(t *testing.T) {
				t.Parallel()
				c := setup(t)
				s := c.keyed(fmt.Sprintf(`{"n":%d}`, lost), `{"n":9}`, 2)
				c.serve(worker.HTTP(worker.HTTPOptions{URL: s.url, AllowOrigins: []string{s.url}}), worker.Options{Slots: 1})
				run, spec := c.start("in.jsonl", jobtest.Lines(12), func(s *job.Spec) { s.BatchItems, s.Expiry, s.Grace = 2, 2*time.Second, 50*time.Millisecond })
				for range 2 {
					<-s.reached
					c.end(run, how)
					run = c.resume()
				}
				require.EqualValues(t, 11, c.wait(run).OK)
				keys := s.of(s.lost)
				require.Len(t, keys, 3)
				require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys)
				s.differ(t, 12)

				client := jobs.NewClient(c.client, nil)
				run, err := client.Redrive(t.Context(), "job", jobs.RedriveOptions{})
				require.NoError(t, err)
				c.wait(run)
				refused := s.of(s.refused)
				require.NotContains(t, refused[:len(refused)-1], refused[len(refused)-1], "a redrive asks anew")
				run, err = client.Start(t.Context(), spec, &jobs.StartOptions{Fresh: true})
				require.NoError(t, err)
				c.wait(run)
				require.NotEqual(t, keys[0], s.of(s.lost)[3], "a fresh start asks anew")
			})
		}
	}
}

// The same holds for the items of a feed.
func TestHTTP_KeyOverResumeOfAFeed(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stop", "terminate"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			s := c.keyed(`{"a":7}`, "", 2)
			c.serve(worker.HTTP(worker.HTTPOptions{URL: s.url, AllowOrigins: []string{s.url}}), worker.Options{Slots: 1})
			f := c.startFeed(func(s *job.Spec) { s.BatchItems, s.Expiry, s.Grace = 2, 2*time.Second, 50*time.Millisecond })
			var items []json.RawMessage
			for n := range 10 {
				items = append(items, json.RawMessage(fmt.Sprintf(`{"a":%d}`, n)))
			}
			f.put(items...)
			for range 2 {
				<-s.reached
				c.end(f.run, how)
				f.run = c.resume()
			}
			f.find()
			f.close()
			require.EqualValues(t, 10, c.wait(f.run).OK)
			keys := s.of(s.lost)
			require.Len(t, keys, 3)
			require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys)
			s.differ(t, 10)
		})
	}
}

// Two slots of a loop have the same ordinals, and other keys.
func TestHTTP_KeysOfALoop(t *testing.T) {
	t.Parallel()
	c := setup(t)
	s := c.keyed("", "", 0)
	c.serve(worker.HTTP(worker.HTTPOptions{URL: s.url, AllowOrigins: []string{s.url}}), worker.Options{Slots: 2})
	spec := job.Spec{Name: "job", Pool: "pool", Loop: &job.Loop{Every: 50 * time.Millisecond, Slots: 2}}
	run, err := jobs.NewClient(c.client, nil).Start(t.Context(), spec, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.keys) > 10
	}, patience, pollEvery)
	c.end(run, "stop")
	s.mu.Lock()
	n := len(s.keys)
	s.mu.Unlock()
	s.differ(t, n)
}
