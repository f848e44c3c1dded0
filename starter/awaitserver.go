package starter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/trap"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
)

// serverPatience is how long a command that stays, such as a worker, waits at its start for a server that does not answer.
type serverPatience struct{ limit time.Duration }

const (
	defaultPatience = 24 * time.Hour
	// waitingEvery is how often a command says what it waits for; dialEvery is how long it waits between tries.
	waitingEvery = time.Minute
	dialEvery    = time.Second
)

func (w *serverPatience) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&w.limit, "wait-for-server", defaultPatience, "how long to wait at the start for a Temporal server that does not answer; 0 ends at once")
}

// errInterrupted says that a command was to end before it had begun its work.
var errInterrupted = errors.New("interrupted")

// dial is connection.dial, and tries again while the server does not answer. It returns errInterrupted at the first signal.
func (w *serverPatience) dial(ctx context.Context, p *Program, c *connection, verbose bool) (sdkclient.Client, error) {
	if w.limit < 0 {
		return nil, usageError("--wait-for-server %v: use a duration from 0 on", w.limit)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := p.Signals
	watching := trap.Go("waiting for signals", func() error {
		select {
		case <-signals:
			cancel(errInterrupted)
			return errInterrupted
		case <-ctx.Done():
			return nil
		}
	})
	client, err := w.await(ctx, p, c, verbose)
	cancel(nil)
	// A signal that came in the last moment has been taken from the channel, and counts.
	if interrupted := <-watching; interrupted != nil {
		if err == nil {
			client.Close()
		}
		return nil, interrupted
	}
	return client, err
}

// await dials until the server answers, ctx ends, or the limit has passed.
func (w *serverPatience) await(ctx context.Context, p *Program, c *connection, verbose bool) (sdkclient.Client, error) {
	began, said := time.Now(), time.Time{}
	for {
		client, err := c.dial(ctx, p, verbose)
		if err == nil {
			if err = c.serves(ctx, client); err == nil {
				return client, nil
			}
			client.Close()
		}
		switch {
		case context.Cause(ctx) != nil:
			return nil, context.Cause(ctx)
		case !isAway(err), time.Since(began) >= w.limit:
			return nil, err
		case said.IsZero() || time.Since(said) >= waitingEvery:
			said = time.Now()
			reason, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Fprintf(p.Stderr, "waiting for the server, until %s (--wait-for-server %v): %s\n", began.Add(w.limit).Format(time.DateTime), w.limit, reason)
		}
		backoff.Wait(min(dialEvery, w.limit-time.Since(began)), ctx.Done())
	}
}

// serves returns an error while the server is there, and cannot do anything yet, or not any more.
func (c *connection) serves(ctx context.Context, client sdkclient.Client) error {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	_, err := client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: c.namespaceOf})
	if !isAway(err) {
		return nil // what else is wrong, is said by what follows
	}
	return &awayError{text: fmt.Sprintf("the Temporal server at %s is not ready: %v", c.hostPort, rootCause(err)), cause: err}
}

// awayError says that a server does not answer, in words for people. The cause is the client's error.
type awayError struct {
	text  string
	cause error
}

func (e *awayError) Error() string { return e.text }
func (e *awayError) Unwrap() error { return e.cause }

// isAway reports whether an error says that a server cannot be reached, or cannot answer now.
func isAway(err error) bool {
	var unavailable *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded)
}

// sayWhoIsLate puts what it means in the place of a client's "context deadline exceeded".
func (p *Program) sayWhoIsLate(err error, text string) string {
	if p.server == "" || !isAway(err) {
		return text
	}
	return strings.ReplaceAll(text, context.DeadlineExceeded.Error(), fmt.Sprintf("the Temporal server at %s has taken the request and not answered it in time: "+
		"its database may be away, or it is too busy; try again in some seconds", p.server))
}
