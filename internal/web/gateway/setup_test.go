package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 5 * time.Minute

// fake is a feed that only its functions know. Without one for a call, it answers with the item.
type fake struct {
	mu       sync.Mutex
	lists    [][]Value // that were accepted
	waits    []time.Duration
	put      func(list []Value) error
	call     func(ctx context.Context, item Value) (Value, error)
	window   int
	state    func() (job.FeedState, error)
	taken    atomic.Int64 // by streams
	left     atomic.Bool  // a stream has been left before its end
	released atomic.Bool
	broken   error // of results
	resets   atomic.Int64
}

func (f *fake) PutWait(_ context.Context, limit time.Duration, items ...Value) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits = append(f.waits, limit)
	if f.put != nil {
		if err := f.put(items); err != nil {
			return err
		}
	}
	f.lists = append(f.lists, items)
	return nil
}

func (f *fake) Call(ctx context.Context, item Value) (Value, error) {
	if f.call == nil {
		return item, nil
	}
	return f.call(ctx, item)
}

// Stream has up to window items in hand, and is as lazy as a real one.
func (f *fake) Stream(ctx context.Context, items iter.Seq[Value], o jobs.StreamOptions) iter.Seq2[jobs.Result[Value, Value], error] {
	type pending struct {
		out Value
		err error
	}
	return func(yield func(jobs.Result[Value, Value], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		fed := make(chan chan pending, max(f.window, 1))
		go func() {
			defer close(fed)
			items(func(item Value) bool {
				f.taken.Add(1)
				done := make(chan pending, 1)
				select {
				case fed <- done:
				case <-ctx.Done():
					return false
				}
				go func() {
					out, err := f.Call(ctx, item)
					done <- pending{out, err}
				}()
				return true
			})
		}()
		for index := int64(0); ; index++ {
			var done chan pending
			more := false
			select {
			case done, more = <-fed:
			case <-ctx.Done():
			}
			if !more {
				if ctx.Err() != nil {
					f.left.Store(true)
					yield(jobs.Result[Value, Value]{Index: index}, ctx.Err())
				}
				return
			}
			var p pending
			select {
			case p = <-done:
			case <-ctx.Done():
				p.err = ctx.Err()
			}
			r := jobs.Result[Value, Value]{Index: index, Ordinal: 100 + index, Numbered: true, Out: p.out}
			if jobs.IsCode(p.err, jobs.CodeDropped) {
				r.Dropped, p.err = true, nil
			}
			if !yield(r, p.err) || p.err != nil && !ofItem(p.err) {
				f.left.Store(true)
				return
			}
		}
	}
}

// Results has as many results as the cursor's item leaves of three; then, if it follows, it waits for the end.
func (f *fake) Results(ctx context.Context, from jobs.FeedCursor, o jobs.ResultsOptions) iter.Seq2[jobs.RecordedResult[Value], error] {
	return func(yield func(jobs.RecordedResult[Value], error) bool) {
		if f.broken != nil && from.Item == 0 {
			yield(jobs.RecordedResult[Value]{Next: from}, f.broken)
			return
		}
		for from.Item < 3 {
			value := Value(fmt.Sprint(from.Item))
			from.Item++
			if !yield(jobs.RecordedResult[Value]{Out: value, Next: from}, nil) {
				f.left.Store(true)
				return
			}
		}
		if !o.Committed {
			<-ctx.Done()
			f.left.Store(true)
			yield(jobs.RecordedResult[Value]{Next: from}, ctx.Err())
			return
		}
		if f.broken != nil {
			yield(jobs.RecordedResult[Value]{Next: from}, f.broken)
		}
	}
}

func (f *fake) State(context.Context) (job.FeedState, error) {
	if f.state == nil {
		return job.FeedState{Capacity: 256, CapacityBytes: 4 << 20, Session: 1}, nil
	}
	return f.state()
}

func (f *fake) Reset(context.Context) (jobs.FeedReset, error) {
	f.resets.Add(1)
	return jobs.FeedReset{Session: 2, Discarded: 3}, nil
}
func (f *fake) Close(context.Context) error { return nil }
func (f *fake) Release()                    { f.released.Store(true) }

func (f *fake) accepted() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, list := range f.lists {
		n += len(list)
	}
	return n
}

// served is a gateway to one feed, on loopback.
type served struct {
	t       *testing.T
	url     string
	gateway *Gateway
	client  *http.Client
}

func serve(t *testing.T, f *fake, change func(*Options)) *served {
	t.Helper()
	o := Options{Open: func(string) Feed { return f }, Loopback: true}
	if change != nil {
		change(&o)
	}
	g, err := New(o)
	require.NoError(t, err)
	server := httptest.NewServer(g)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
		g.Close()
	})
	return &served{t: t, url: server.URL, gateway: g, client: client}
}

type reply struct {
	status int
	header http.Header
	body   string
}

// problem is the error that the reply has.
func (r reply) problem(t *testing.T) problem {
	t.Helper()
	var got failed
	require.NoError(t, json.Unmarshal([]byte(r.body), &got), r.body)
	return got.Error
}

func (s *served) send(method, path, media string, body io.Reader, headers ...string) reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	require.NoError(s.t, err)
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return reply{response.StatusCode, response.Header, string(text)}
}

func (s *served) post(path, media, body string, headers ...string) reply {
	s.t.Helper()
	return s.send(http.MethodPost, path, media, strings.NewReader(body), headers...)
}

const (
	jsonType = "application/json"
	lineType = "application/x-ndjson"
)

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, time.Millisecond)
}
