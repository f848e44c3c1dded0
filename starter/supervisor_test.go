package starter_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// Variables that make a worker of pool p out of this test program.
const (
	asWorker  = "STINT_TEST_WORKER"    // the name of its handler
	argument  = "STINT_TEST_ARGUMENT"  // for the handler
	childMark = "STINT_TEST_CHILDMARK" // what marks its child processes; may be empty
	oneSlot   = "STINT_TEST_ONESLOT"   // not empty: it has one slot instead of two
	noJobs    = "STINT_TEST_NOJOBS"    // not empty: it leaves the coordination to other workers
)

// handlers are those of such workers. Bad items are the words of the argument.
var handlers = map[string]func(argument string) worker.Handler{
	// poison ends the whole worker over a bad item; slow is the same with a millisecond for each item.
	"poison": func(argument string) worker.Handler { return poison(strings.Fields(argument), 0) },
	"slow":   func(argument string) worker.Handler { return poison(strings.Fields(argument), time.Millisecond) },
	// deaf hangs over a bad item and ignores its context.
	"deaf": func(argument string) worker.Handler {
		bad := strings.Fields(argument)
		return worker.Each(func(_ context.Context, item string) (string, error) {
			if slices.Contains(bad, item) {
				select {}
			}
			return item, nil
		})
	},
	"exec": func(argument string) worker.Handler { return worker.Exec(argument) },
}

func poison(bad []string, each time.Duration) worker.Handler {
	return worker.Each(func(_ context.Context, item string) (string, error) {
		time.Sleep(each) // the item's work
		if slices.Contains(bad, item) {
			os.Exit(poisoned)
		}
		return item, nil
	})
}

// poisoned is the exit code of a worker that has met a bad item.
const poisoned = 7

// serveAs is the main function of such a worker, which is drained by SIGTERM.
func serveAs(name string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := sdkclient.DialContext(ctx, sdkclient.Options{
		HostPort: os.Getenv("TEMPORAL_ADDRESS"), Logger: sdklog.NewStructuredLogger(silent),
	})
	if err != nil {
		log.Error("connecting", "error", err)
		return 1
	}
	defer c.Close()
	options := worker.Options{Slots: 2, Logger: log, NoWorkflows: os.Getenv(noJobs) != ""}
	if os.Getenv(oneSlot) != "" {
		options.Slots = 1
	}
	if mark := os.Getenv(childMark); mark != "" {
		options.Env = []string{mark}
	}
	w, err := worker.New(jobs.NewClient(c, nil), "p", handlers[name](os.Getenv(argument)), options)
	if err != nil {
		log.Error("making the worker", "error", err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "serving pool p")
	if err := w.Run(ctx); err != nil {
		log.Error("serving", "error", err)
		return 1
	}
	return 0
}

// goWorker is the command of such a worker, with more variables of its environment.
func goWorker(t *testing.T, name, arg string, env ...string) func() *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append([]string{asWorker + "=" + name, argument + "=" + arg}, env...)
		return cmd
	}
}

// coordinator starts a worker that coordinates the jobs of the others, which must not. What becomes
// of these does not hold the coordination up then.
func (b *box) coordinator() {
	b.t.Helper()
	b.spawn("worker", "--allow", b.dir, "--pool", "other", "--exec", "cat").says("serving pool other")
	b.env = append(b.env, noJobs+"=1")
}

// supervisor keeps workers running: one that ends is started again at once.
type supervisor struct {
	t       *testing.T
	box     *box
	command func() *exec.Cmd
	keeping sync.WaitGroup

	mu     sync.Mutex
	places []*process
	ends   map[int]int // how many have ended, by exit code; -1 is a signal
	ending bool
}

// supervise starts so many workers and waits until they serve.
func (b *box) supervise(workers int, command func() *exec.Cmd) *supervisor {
	b.t.Helper()
	s := &supervisor{t: b.t, box: b, command: command, places: make([]*process, workers), ends: map[int]int{}}
	for place := range workers {
		s.keeping.Go(func() { s.keep(place) })
	}
	b.t.Cleanup(s.kill)
	for place := range workers {
		s.serving(place)
	}
	return s
}

// keep keeps a worker running in a place, until the supervisor ends.
func (s *supervisor) keep(place int) {
	for {
		s.mu.Lock()
		if s.ending {
			s.mu.Unlock()
			return
		}
		p, err := s.box.launch(s.command())
		s.places[place] = p
		s.mu.Unlock()
		if err != nil {
			s.t.Errorf("starting worker %d: %v", place, err)
			return
		}
		<-p.ended
		if err := p.discard(); err != nil {
			s.t.Errorf("ending worker %d: %v", place, err)
			return
		}
		s.mu.Lock()
		s.ends[p.cmd.ProcessState.ExitCode()]++
		s.mu.Unlock()
	}
}

// worker is the process in a place; it may be about to be replaced.
func (s *supervisor) worker(place int) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[place]
}

// serving waits until a worker serves in a place, and returns it.
func (s *supervisor) serving(place int) *process {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("worker %d", place), func() bool {
		p := s.worker(place)
		return p != nil && p.running() && strings.Contains(p.stderr.String(), "serving pool p")
	})
	return s.worker(place)
}

// ended is how many workers have ended with an exit code.
func (s *supervisor) ended(code int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[code]
}

// finish ends the supervisor and, with this signal, its workers.
func (s *supervisor) finish(sig syscall.Signal) {
	s.mu.Lock()
	s.ending = true
	places := s.places
	s.mu.Unlock()
	for _, p := range places {
		if p != nil {
			p.signal(sig)
		}
	}
	s.keeping.Wait()
}

func (s *supervisor) kill() { s.finish(syscall.SIGKILL) }

// drain ends the supervisor and has its workers drained, which must not fail.
func (s *supervisor) drain() {
	s.t.Helper()
	before := s.ended(starter.ExitOK)
	s.finish(syscall.SIGTERM)
	require.Equal(s.t, len(s.places), s.ended(starter.ExitOK)-before, "workers that have drained; ends by exit code: %v", s.ends)
}
