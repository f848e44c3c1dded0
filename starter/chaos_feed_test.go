package starter_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

const (
	feedPutters  = 8
	feedList     = 50 // items that are put together
	feedBatch    = 100
	feedCapacity = 3000
)

// feed is a client of the job, in this process.
func (c *chaos) feed() *jobs.Feed[string, string] {
	c.t.Helper()
	_, address, _ := strings.Cut(c.env[len(c.env)-1], "TEMPORAL_ADDRESS=")
	var server client.Client
	eventually(c.t, "the server", func() (ok bool) {
		var err error
		server, err = client.Dial(client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		return err == nil
	})
	feed := jobs.NewFeed[string, string](jobs.NewClient(server, nil), "nightly", jobs.FeedOptions{})
	c.t.Cleanup(func() {
		feed.Release()
		server.Close()
	})
	return feed
}

// feeders put the numbers below the items of a chaos into its feed, each of them until it is accepted.
type feeders struct {
	c    *chaos
	mu   sync.Mutex
	next int
}

// take is the next list, empty after the last one.
func (f *feeders) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for ; f.next < f.c.items && len(list) < feedList; f.next++ {
		list = append(list, fmt.Sprintf("%0*d", lineOf-1, f.next))
	}
	return list
}

// put puts lists until there are no more. What is refused has left no trace and is put again, whatever the reason was.
func (f *feeders) put(ctx context.Context, feed *jobs.Feed[string, string]) {
	for list := f.take(); len(list) > 0; list = f.take() {
		for {
			err := feed.PutWait(ctx, time.Minute, list...)
			if err == nil {
				break
			}
			if !assert.NoError(f.c.t, ctx.Err()) || !assert.False(f.c.t, jobs.IsCode(err, jobs.CodeUncertain), "%v", err) {
				return
			}
			time.Sleep(50 * time.Millisecond) // it is stopped, or nobody serves it: somebody changes that
		}
	}
}

// TestChaos_FeedShort is a short round of TestChaos_Feed.
func TestChaos_FeedShort(t *testing.T) {
	t.Parallel()
	withstandFeeding(t, 8000, 5)
}

// TestChaos_Feed (G1, G2, F1, F11): while everything around a feed fails, each item that it has accepted has one
// outcome in the output, and each that is put again after a refusal is there once.
func TestChaos_Feed(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstandFeeding(t, 60_000, 25) })
}

// withstandFeeding is withstand for a feed that clients put n items into.
func withstandFeeding(t *testing.T, n, number int) {
	t.Helper()
	c := newChaos(t, n)
	c.handler = []string{"--exec", c.witness("sleep 0.3; ")}
	c.batch = feedBatch
	c.beginWorkers()
	c.start("out.txt", "--feed", "--format", "text", "--capacity", itoa(feedCapacity))
	feed := c.feed()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	f := &feeders{c: c}
	var putting sync.WaitGroup
	defer func() { // none may outlive a round that has failed
		cancel()
		putting.Wait()
	}()
	for range feedPutters {
		putting.Go(func() { f.put(ctx, feed) })
	}
	c.rage(c.choose(faults, number))
	putting.Wait()
	c.spawn("feed", "close", "nightly").exits(starter.ExitOK)
	c.end(func() string {
		lines := strings.SplitAfter(c.read("out.txt"), "\n")
		slices.Sort(lines) // they were put in any order
		return strings.Join(lines, "")
	})
}
