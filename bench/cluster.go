package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/collector"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// cluster is a server and the workers of a pool, each its own process. It is used by one goroutine.
type cluster struct {
	dir     string
	server  *process
	address string        // of the server
	call    time.Duration // see workerRole
	workers []*process
	client  sdkclient.Client
	events  chan event
	jobs    int // started so far
}

const (
	clusterWorkers = 3
	clusterSlots   = 4 // of each worker
	// patience bounds every wait for something that shall happen.
	patience = time.Minute
)

// event is what a handler says of one of its calls.
type event struct {
	what string // eventBegan or eventStopping
	item int
	at   time.Time
	from *process
}

const (
	eventBegan    = "began"
	eventStopping = "stopping" // the call was asked to end
)

// process is this program in another part, which ends when its standard input does.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// startCluster starts a server and its workers. The caller must call close.
func startCluster(ctx context.Context, dir string, push bool, call time.Duration) (*cluster, error) {
	c := &cluster{dir: dir, call: call, events: make(chan event, 1000)}
	if err := c.start(ctx, push); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context, push bool) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	var err error
	if c.server, err = startProcess("server", filepath.Join(c.dir, "temporal"), strconv.FormatBool(push)); err != nil {
		return err
	}
	if c.address, err = c.server.line(); err != nil {
		return fmt.Errorf("reading the server's address: %w", err)
	}
	if c.client, err = dial(ctx, c.address); err != nil {
		return err
	}
	for range clusterWorkers {
		if err := c.addWorker(); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) addWorker() error {
	p, err := startProcess("worker", c.address, c.call.String())
	if err != nil {
		return err
	}
	c.workers = append(c.workers, p)
	go func() { // until the process has ended
		for {
			line, err := p.lines.ReadString('\n')
			if err != nil {
				return
			}
			e := event{from: p}
			var at int64
			if _, err := fmt.Sscan(line, &e.what, &e.item, &at); err == nil {
				e.at = time.Unix(0, at)
				c.events <- e
			}
		}
	}()
	return nil
}

// kill ends a worker with SIGKILL and returns when.
func (c *cluster) kill(p *process) (time.Time, error) {
	at := time.Now()
	if err := p.cmd.Process.Kill(); err != nil {
		return at, err
	}
	for i, w := range c.workers {
		if w == p {
			c.workers = append(c.workers[:i:i], c.workers[i+1:]...)
			break
		}
	}
	_ = p.end() // as it was asked to
	return at, nil
}

// next waits for what a handler says next.
func (c *cluster) next(ctx context.Context) (event, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case e := <-c.events:
		return e, nil
	case <-ctx.Done():
		return event{}, fmt.Errorf("waiting for a handler: %w", ctx.Err())
	}
}

func (c *cluster) close() {
	for _, w := range c.workers {
		_ = w.end() // it has been measured
	}
	if c.client != nil {
		c.client.Close()
	}
	if c.server != nil {
		_ = c.server.end()
	}
}

func startProcess(role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startCommand(exec.Command(self, append([]string{"role", role}, args...)...))
}

// startCommand starts a command that is such a process.
func startCommand(cmd *exec.Cmd) (*process, error) {
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd, err)
	}
	return &process{cmd: cmd, stdin: stdin, lines: bufio.NewReader(out)}, nil
}

// line waits for a line that the process writes.
func (p *process) line() (string, error) {
	line, err := p.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// end has the process end, and waits until it has.
func (p *process) end() error {
	_ = p.stdin.Close() // it may have ended already
	return p.cmd.Wait()
}

// serverRole returns the server of a cluster.
func serverRole(dir, push string) error {
	collector.PaceServer() // as 'stint server' does
	server, err := devserver.Start(context.Background(), devserver.Options{
		Dir: dir, PowerSafe: true, NoPush: push != "true", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Println(server.Address())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// dial connects to a server of another process.
func dial(ctx context.Context, address string) (sdkclient.Client, error) {
	return sdkclient.DialContext(ctx, sdkclient.Options{HostPort: address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
}

// workerRole returns a worker of a cluster. Its calls take so long, 0 for ever, unless they are asked to end.
func workerRole(address, call string) error {
	limit, err := time.ParseDuration(call)
	if err != nil {
		return err
	}
	return runWorker(address, worker.Each(untilTold(limit)), worker.Options{Slots: clusterSlots})
}

// runWorker runs a worker of the server at an address, until standard input ends.
func runWorker(address string, handler worker.Handler, options worker.Options) error {
	return runWorkerOf(address, "bench", handler, options)
}

// runWorkerOf is runWorker for another pool.
func runWorkerOf(address, pool string, handler worker.Handler, options worker.Options) error {
	c, err := dial(context.Background(), address)
	if err != nil {
		return err
	}
	defer c.Close()
	options.Logger = slog.New(slog.DiscardHandler)
	w, err := worker.New(jobs.NewClient(c, nil), pool, handler, options)
	if err != nil {
		return err
	}
	ctx, drain := context.WithCancel(context.Background())
	go func() {
		defer drain()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return w.Run(ctx)
}

func untilTold(limit time.Duration) func(context.Context, record) (record, error) {
	return func(ctx context.Context, r record) (record, error) {
		say := func(what string) { fmt.Printf("%s %d %d\n", what, r.ID, time.Now().UnixNano()) }
		say(eventBegan)
		var over <-chan time.Time
		if limit > 0 {
			over = time.After(limit)
		}
		select {
		case <-worker.Stopping(ctx):
			say(eventStopping)
		case <-over:
		}
		return r, nil
	}
}
