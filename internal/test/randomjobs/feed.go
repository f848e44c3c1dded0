package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
)

// A feed is run as people run one: a server, a worker, and commands that put items, call, and in the end close it.
// Meanwhile the worker, the server or a client is killed, or the feed is stopped and resumed.

// feedFaults are the faults of a feed.
var feedFaults = []string{"kill-worker", "kill-worker", "kill-server", "kill-client", "stop-feed"}

// feeds makes the job a feed.
func (j *job) feeds(r *rand.Rand) {
	j.feed, j.items, j.flags = true, 1+r.IntN(1<<(3+r.IntN(7))), nil
	for _, f := range []struct {
		name string
		most int
	}{{"--batch-items", 20}, {"--window", 8}, {"--capacity", 200}} {
		if r.IntN(2) == 0 {
			j.flags = append(j.flags, f.name, strconv.Itoa(1+r.IntN(f.most)))
		}
	}
	j.faults = nil
	for range r.IntN(4) {
		kind := feedFaults[r.IntN(len(feedFaults))]
		j.faults = append(j.faults, fault{kind, time.Duration(r.IntN(1500)) * time.Millisecond})
	}
	if j.bucket != "" && r.IntN(2) == 0 {
		j.faults = append(j.faults, fault{outages[r.IntN(len(outages))], time.Duration(r.IntN(1000)) * time.Millisecond})
	}
}

// client is a command that gives items to the feed.
type client struct {
	calls bool
	items []item
}

// line returns the client's command.
func (c *client) line() []string {
	if c.calls {
		return []string{"feed", "call", name, "-f", "-", "--json", "--timeout", "1m"}
	}
	return []string{"feed", "put", name, "-f", "-", "--wait", "1m"}
}

// closeLine is the command that closes a feed.
var closeLine = []string{"feed", "close", name, "--wait"}

// clients returns those of a job, one after the other.
func (j job) clients(items []item) []client {
	r := rand.New(rand.NewPCG(j.seed, 4))
	most := 1 + len(items)/(2+r.IntN(8))
	var all []client
	for len(items) > 0 {
		n := min(len(items), 1+r.IntN(most))
		all = append(all, client{calls: r.IntN(3) == 0, items: items[:n]})
		items = items[n:]
	}
	return all
}

// feedRun is a feed that runs.
type feedRun struct {
	l       *lab
	j       job
	b       *bench
	address string

	mu      sync.Mutex
	server  *exec.Cmd
	workers []*exec.Cmd // one of each pool
	client  *exec.Cmd   // that gives items now

	unsure map[int]bool // items that may have been accepted, by number
	put    []int        // items that puts have had accepted, in their order
}

// performFeed is perform for a feed.
func (l *lab) performFeed(ctx context.Context, j job, b *bench, items []item) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address, err := freePort()
	if err != nil {
		return err
	}
	f := &feedRun{l: l, j: j, b: b, address: address, unsure: map[int]bool{}}
	defer f.end()
	f.workers = make([]*exec.Cmd, max(1, j.stages))
	err = f.startServer()
	for pool := range f.workers {
		err = errors.Join(err, f.startWorker(pool))
	}
	if err != nil {
		return err
	}
	if err := f.until(ctx, "starting the feed", f.startLine(), exitOK); err != nil {
		return err
	}
	afflicted, calm := context.WithCancel(ctx)
	over := trap.Go("faults", func() error { return f.afflict(afflicted) })
	for _, c := range j.clients(items) {
		if err == nil {
			err = f.give(ctx, c)
		}
	}
	calm()
	if err := errors.Join(err, <-over); err != nil {
		return err
	}
	if err := f.until(ctx, "closing the feed", closeLine, exitOK, exitSomeFailed); err != nil {
		return err
	}
	return f.compare(items)
}

// freePort returns an address at which nobody listens.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// startLine returns the command that starts the feed.
func (f *feedRun) startLine() []string {
	line := []string{"start", "--feed", "--name", name, "--expiry", "5s", "--backoff", "1ms", "--attempts", "5"}
	if f.j.stages > 0 {
		line = append(line, "-f", f.b.stages)
	} else {
		line = append(line, "--pool", "p0")
	}
	if f.j.flaky > 0 {
		line = append(line, "--item-attempts", "3")
	}
	return append(append(line, "--format", f.j.format, "-o", f.b.location(f.b.output)), f.j.flags...)
}

// command makes a command that talks to the server, or is it.
func (f *feedRun) command(ctx context.Context, line ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, f.l.stint, line...)
	cmd.Dir, cmd.Env = f.b.dir, append(cmd.Environ(), "TEMPORAL_ADDRESS="+f.address)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (f *feedRun) startServer() error {
	_, port, err := net.SplitHostPort(f.address)
	if err != nil {
		return err
	}
	server := f.command(context.Background(), "server", "--state", f.b.state, "--port", port, "--ui-port", "0")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server = server
	return server.Start()
}

// workerLine returns the command of a pool's worker.
func (f *feedRun) workerLine(pool int) []string {
	line := []string{"worker", "--allow", "/", "--slots", "2", "--pool", fmt.Sprint("p", pool)}
	if f.b.store != nil {
		line = append(line, "--allow", f.b.store.at(""))
	}
	return append(line, f.j.handler(f.l, f.b)...)
}

func (f *feedRun) startWorker(pool int) error {
	worker := f.command(context.Background(), f.workerLine(pool)...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers[pool] = worker
	return worker.Start()
}

// end kills what runs.
func (f *feedRun) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cmd := range append(f.workers, f.server) {
		kill(cmd)
	}
}

// kill kills a command and waits for its end.
func kill(cmd *exec.Cmd) {
	if cmd != nil && cmd.Process != nil {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
}

// until gives a command until it ends with one of the statuses.
func (f *feedRun) until(ctx context.Context, what string, line []string, statuses ...int) error {
	for {
		var said bytes.Buffer
		cmd := f.command(ctx, line...)
		cmd.Stderr = &said
		err := cmd.Run()
		if cmd.ProcessState == nil {
			return err
		}
		status := cmd.ProcessState.ExitCode()
		if slices.Contains(statuses, status) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fails("%s did not succeed in %v; status %d:\n%s", what, patience, status, tail(said.String()))
		case <-time.After(200 * time.Millisecond): // between two tries
		}
	}
}

// give has a client give items to the feed, and notes what has become of them.
func (f *feedRun) give(ctx context.Context, c client) error {
	line := c.line()
	var out, said bytes.Buffer
	cmd := f.command(ctx, line...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(f.j.encode(c.items)), &out, &said
	f.mu.Lock()
	f.client = cmd
	err := cmd.Start()
	f.mu.Unlock()
	if err != nil {
		return err
	}
	_ = cmd.Wait() // the status says how it went
	f.mu.Lock()
	f.client = nil
	f.mu.Unlock()
	if ctx.Err() != nil {
		return fails("%s did not end in %v:\n%s", line[0], patience, tail(said.String()))
	}
	status := cmd.ProcessState.ExitCode()
	if c.calls {
		return f.called(c.items, status, out.String())
	}
	accepted, _ := strconv.Atoi(strings.TrimSpace(out.String())) // one that was killed has printed nothing
	if status == exitOK && accepted != len(c.items) {
		return fails("put ended with 0, and accepted %d of %d items", accepted, len(c.items))
	}
	for n, i := range c.items {
		if n < accepted {
			f.put = append(f.put, i.n)
		} else {
			f.unsure[i.n] = true
		}
	}
	return nil
}

// called notes what has become of the items of a call, and compares what it has printed. Items of which it has
// printed no outcome may have been accepted.
func (f *feedRun) called(items []item, status int, printed string) error {
	for _, i := range items {
		f.unsure[i.n] = true
	}
	lines := strings.Split(printed, "\n")
	for _, line := range lines[:len(lines)-1] { // the last one is not whole
		var one struct {
			Index   int             `json:"index"`
			Result  json.RawMessage `json:"result"`
			Dropped bool            `json:"dropped"`
			Error   *struct {
				Kind string `json:"kind"`
			} `json:"error"`
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Index >= len(items) {
			return fails("a call has printed %s: %v", strconv.Quote(line), err)
		}
		i := items[one.Index]
		want := cmp.Or(map[string]string{"drop": "dropped", "fail": "failed"}[i.kind], f.j.result(i))
		got := "dropped"
		switch {
		case one.Error != nil && (one.Error.Kind == "timeout" || one.Error.Kind == "discarded"):
			continue
		case one.Error != nil && one.Error.Kind == "stored":
			got = want
		case one.Error != nil:
			got = "failed"
		case !one.Dropped:
			got = f.j.comparable(string(one.Result))
		}
		if got != want {
			return fails("a call has printed %s for item %d, not %s", strconv.Quote(line), i.n, strconv.Quote(want))
		}
		delete(f.unsure, i.n)
	}
	if missing := slices.ContainsFunc(items, func(i item) bool { return f.unsure[i.n] }); missing && status == exitOK {
		return fails("a call has ended with 0 without a line for each of %d items:\n%s", len(items), tail(printed))
	}
	return nil
}

// afflict has the job's faults happen, until ctx ends.
func (f *feedRun) afflict(ctx context.Context) error {
	for _, one := range f.j.faults {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(one.after): // the moment of the fault
		}
		if err := f.happens(ctx, one.kind); err != nil {
			return err
		}
	}
	return nil
}

func (f *feedRun) happens(ctx context.Context, kind string) error {
	f.mu.Lock()
	server, worker, client := f.server, f.workers[0], f.client
	f.mu.Unlock()
	switch kind {
	case "kill-worker":
		kill(worker)
		return f.startWorker(0)
	case "kill-server":
		kill(server)
		return f.startServer()
	case "kill-client":
		if client != nil {
			_ = client.Process.Signal(syscall.SIGKILL) // it may have ended
		}
		return nil
	case "stop-feed":
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if err := f.until(ctx, "stopping the feed", []string{"stop", name, "--wait"}, exitOK, exitStopped); err != nil {
			return err
		}
		return f.until(ctx, "resuming the feed", []string{"resume", name}, exitOK)
	}
	f.b.store.afflict(kind)
	return nil
}

// exitStopped is the status of a command whose job was stopped.
const exitStopped = 4

// compare compares what the feed has left with what it had to: each item that it has surely accepted has one outcome,
// and any other one has at most one.
func (f *feedRun) compare(items []item) error {
	got, err := f.j.left(f.b, nil)
	if err != nil {
		return fails("reading what the feed has left: %v", err)
	}
	seen := map[int]bool{}
	var order []int
	for _, line := range got.results[""] {
		n := numberOf(line)
		seen[n], order = true, append(order, n)
	}
	for _, n := range got.failed {
		seen[n] = true
	}
	expected := slices.DeleteFunc(slices.Clone(items), func(i item) bool { return f.unsure[i.n] && !seen[i.n] })
	want := f.j.model(expected, false)
	results := slices.Clone(got.results[""])
	slices.SortFunc(results, func(a, b string) int { return numberOf(a) - numberOf(b) })
	if len(results) > 0 {
		got.results[""] = results
	}
	slices.Sort(got.failed)
	if what := want.differs(got); what != "" {
		return fails("%s", what)
	}
	if puts := slices.DeleteFunc(order, func(n int) bool { return !slices.Contains(f.put, n) }); !slices.IsSorted(puts) {
		return fails("items that were put one after the other are in the order %v", puts)
	}
	return nil
}

// numberOf returns the number of the item of a result in the form of [job.result].
func numberOf(result string) int {
	word, _, _ := strings.Cut(result, " ")
	n, _ := strconv.Atoi(word) // or it differs from what is wanted
	return n
}
