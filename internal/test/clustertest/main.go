//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	pool  = "upper"
	hosts = 3
	slots = 2 // of each worker
	// batches is how many a job has.
	batches = 100
	// patience bounds whatever must happen soon.
	patience = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 2 && os.Args[1] == "role" {
		err = role(ctx, os.Args[2], os.Args[3:])
	} else {
		err = command(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	items    int
	seed     uint64
	only     string
	run      string
	long     bool
	short    bool
	limit    time.Duration
	keep     string
	programs programs
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("clustertest", flag.ContinueOnError)
	flags.IntVar(&o.items, "items", 100_000, "lines of a job")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "which packets get lost")
	flags.StringVar(&o.only, "only", "", "only scenarios whose names contain this `text`")
	flags.StringVar(&o.run, "run", "", "instead of the scenarios, a `command` for a shell, with Temporal at "+frontend)
	flags.BoolVar(&o.long, "long", false, "all scenarios, also those that take long")
	flags.BoolVar(&o.short, "short", false, "some scenarios only, as in CI")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "how long one scenario may take")
	flags.StringVar(&o.keep, "keep", "", "`directory` for logs, which is left; by default a temporary one")
	flags.StringVar(&o.programs.stint, "stint", "", "the program; by default it is built, as are the next two")
	flags.StringVar(&o.programs.temporal, "temporal", "", "Temporal's server")
	flags.StringVar(&o.programs.sqlTool, "sql-tool", "", "Temporal's tool for its schema, named temporal-sql-tool")
	flags.StringVar(&o.programs.late, "late", "", "stint with a clock that can be wrong; by default it is built with -long")
	flags.StringVar(&o.programs.weed, "weed", "", "SeaweedFS; by default the bucket is in memory")
	return o, flags.Parse(args)
}

// command runs the scenarios that the arguments name, and prints a row of a table for each.
func command(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	l, err := newLab(ctx, o)
	defer l.close()
	if err != nil {
		return err
	}
	if o.run != "" {
		cmd := l.servers.host.command(ctx, "sh", "-c", o.run)
		cmd.Stdout, cmd.Env = out, append(cmd.Env, "TMPDIR="+os.TempDir()) // it may need more than a host has
		return finish(cmd)
	}
	if err := errors.Join(l.addHosts(ctx, o.seed), l.put(ctx, o.items)); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d lines, seed %d, %d hosts of %d slots, expiry %s\n\n| what fails | time | retries |\n|---|--:|--:|\n",
		o.items, o.seed, hosts, slots, expiry)
	var failed []error
	for i, s := range scenarios {
		if !strings.Contains(s.name, o.only) || s.round == long && !o.long || s.round != quick && o.short {
			continue
		}
		r, err := l.try(ctx, s, fmt.Sprintf("job-%d", i))
		if err != nil {
			fmt.Fprintf(out, "| %s | FAILED: %s | |\n", s.name, err)
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
			continue
		}
		fmt.Fprintf(out, "| %s | %.1f s | %d |\n", s.name, time.Since(r.began).Seconds(), r.report.Retries)
	}
	return errors.Join(failed...)
}

// lab is a cluster, and a job's input in its bucket.
type lab struct {
	dir      string
	prefix   string // of the names of network namespaces
	keep     bool
	limit    time.Duration
	programs programs
	hosts    []*host // of workers
	servers  *servers
	input    input
}

func newLab(ctx context.Context, o options) (*lab, error) {
	l := &lab{dir: o.keep, keep: o.keep != "", limit: o.limit, programs: o.programs}
	var err error
	if l.dir == "" {
		l.dir, err = os.MkdirTemp("", "clustertest")
	} else if err = os.MkdirAll(l.dir, 0o755); err == nil {
		l.dir, err = filepath.Abs(l.dir)
	}
	if err != nil {
		return l, err
	}
	if err := errors.Join(os.Chmod(l.dir, 0o755), l.build(ctx, o.long)); err != nil {
		return l, err
	}
	l.prefix = fmt.Sprintf("stint-%d-", os.Getpid())
	core, err := newHost(ctx, l.prefix, "servers", l.dir, temporalAddress, append(storeEnv(), "TEMPORAL_ADDRESS="+frontend))
	if err != nil {
		return l, err
	}
	l.servers, err = startServers(ctx, core, l.programs)
	return l, err
}

// addHosts makes the hosts of the workers.
func (l *lab) addHosts(ctx context.Context, seed uint64) error {
	core := l.servers.host
	for i := range hosts {
		h, err := newHost(ctx, l.prefix, fmt.Sprint("host", i), l.dir, netip.AddrFrom4([4]byte{10, 77, 1, byte(i + 1)}), core.env)
		if err != nil {
			return err
		}
		l.hosts = append(l.hosts, h)
		if err := h.connect(ctx, core, seed+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// build builds the programs that were not given.
func (l *lab) build(ctx context.Context, late bool) error {
	var err error
	if l.programs.self, err = os.Executable(); err != nil {
		return err
	}
	if l.programs.postgres, err = findPostgres(); err != nil {
		return err
	}
	for _, p := range []struct {
		program    *string
		name, path string
	}{
		{&l.programs.stint, "stint", "github.com/stint-run/stint"},
		{&l.programs.temporal, "temporal-server", "go.temporal.io/server/cmd/server"},
		{&l.programs.sqlTool, "temporal-sql-tool", "go.temporal.io/server/cmd/tools/sql"},
	} {
		if *p.program != "" {
			continue
		}
		*p.program = filepath.Join(l.dir, p.name)
		if err := run(ctx, "go", "build", "-o", *p.program, p.path); err != nil {
			return err
		}
	}
	if late && l.programs.late == "" {
		l.programs.late, err = buildLate(ctx, l.dir)
	}
	return err
}

func (l *lab) close() {
	for _, h := range l.hosts {
		h.close()
	}
	if l.servers != nil {
		l.servers.host.close()
	}
	if !l.keep {
		_ = os.RemoveAll(l.dir)
	}
}

// try runs a job through a scenario. Its workers are new ones, and end with it.
func (l *lab) try(ctx context.Context, s scenario, name string) (*running, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	defer l.endWorkers()
	for _, h := range l.hosts {
		if err := l.startWorker(h, l.programs.stint); err != nil {
			return nil, err
		}
	}
	if s.workers != nil {
		if err := s.workers(ctx, l); err != nil {
			return nil, err
		}
	}
	r, err := l.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := r.until(ctx, 20); err != nil {
		return nil, err
	}
	if err := s.fails(ctx, l); err != nil {
		return nil, err
	}
	return r, l.exact(ctx, r)
}

// startWorker starts a worker on a host. Its filter takes a while for each batch, so that there is something to fail.
func (l *lab) startWorker(h *host, program string, env ...string) error {
	var err error
	h.worker, err = h.startIn("worker", env, program, "worker", "--pool", pool, "--name", h.name, "--slots", fmt.Sprint(slots),
		"--exec", "sh -c 'sleep 0.5; exec tr a-z A-Z'", "--allow", "s3://"+bucket+inBucket, "--drain", "30s")
	return err
}

func (l *lab) endWorkers() {
	for _, h := range l.hosts {
		h.wire.set(conditions{})
		if h.worker != nil {
			h.worker.kill()
		}
	}
}
