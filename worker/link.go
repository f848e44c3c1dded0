package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"go.temporal.io/api/serviceerror"
)

// link is the connection to Temporal, as a worker shows it: it is asked for a sign of life every few seconds. The work itself notices
// nothing of an outage but that no answers come. A nil link is connected.
type link struct {
	log *slog.Logger
	ask func(context.Context) error

	mu    sync.Mutex
	why   error     // why it is cut off; nil: it is not
	since time.Time // the last sign of life before
}

const (
	// linkEvery is how often the server is asked, and linkLimit how long it may take.
	linkEvery = 3 * time.Second
	linkLimit = 3 * time.Second
)

// watch asks until ctx ends. A server that has not answered twice in a row is away.
func (l *link) watch(ctx context.Context) {
	misses, last := 0, time.Now()
	for backoff.Wait(linkEvery, ctx.Done()) {
		err := l.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			misses, last = 0, time.Now()
			l.restored()
			continue
		}
		if misses++; misses == 2 {
			l.lost(last, err)
		}
	}
}

// once returns an error if the server does not answer. Any answer is one.
func (l *link) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	err := l.ask(ctx)
	var unavailable *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	if errors.As(err, &unavailable) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func (l *link) lost(since time.Time, why error) {
	l.mu.Lock()
	l.why, l.since = why, since
	l.mu.Unlock()
	l.log.Warn("cut off from Temporal: calls in hand continue, nothing new comes, and batches that are not reported before their job's expiry run again",
		"since", since.UTC().Format(time.RFC3339), "error", why)
}

func (l *link) restored() {
	l.mu.Lock()
	was, since := l.why, l.since
	l.why = nil
	l.mu.Unlock()
	if was != nil {
		l.log.Info("Temporal answers again", "after", time.Since(since).Round(time.Second))
	}
}

// cutOff returns since when and why the worker is cut off; nil if it is not.
func (l *link) cutOff() (since time.Time, why error) {
	if l == nil {
		return since, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.why
}
