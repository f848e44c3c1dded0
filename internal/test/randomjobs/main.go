// Command randomjobs runs seeded random jobs of `stint run`, and feeds, has runs killed and stopped, their disk filled
// up and their bucket out of order, and compares what the jobs leave with a model of a few lines. If one fails, it
// looks for the simplest job that still does, prints its command, and ends with status 1.
//
//		go run ./internal/test/randomjobs -for 1h
//		go run ./internal/test/randomjobs -seed 4711 -jobs 1
//
//	  - job.go: a random job, and its command line
//	  - items.go: items, as inputs have them; the handlers' answers, and the programs that give them; what a job
//	    has to leave
//	  - run.go: running a job through its faults
//	  - bucket.go: an object store that has outages
//	  - feed.go: a feed, its clients and its faults
//	  - main.go: the command, and the simplest job that fails
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == handlerCommand {
		if err := filter(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	enterNamespace()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// command runs random jobs, as the arguments say.
func command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("randomjobs", flag.ContinueOnError)
	long := flags.Duration("for", 2*time.Minute, "how long to begin new jobs")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "of the first job; the others follow")
	most := flags.Int("jobs", 0, "most jobs; 0: any number")
	program := flags.String("stint", "", "the program; by default it is built")
	only := flags.String("only", "", "only jobs of a `kind`: worn (outages wear their legs out, so that they continue as new), "+
		"buckets, feeds, each (a command for each item) or reuse (of the results of an earlier run)")
	keep := flags.String("keep", "", "directory in which a job that fails is kept")
	if err := flags.Parse(args); err != nil {
		return err
	}
	lab, err := newLab(ctx, *program, *keep)
	if err != nil {
		return err
	}
	defer lab.close()
	if *only != "" {
		lab.flags = " -only " + *only
	}
	if *only == "worn" && lab.disk == "" {
		return errors.New("no mount namespace: run this as root, with unshare from util-linux")
	}
	if lab.disk == "" {
		fmt.Fprintln(out, "no mount namespace: disks are not filled up")
	}
	fmt.Fprintf(out, "seed %d\n", *seed)
	began, done := time.Now(), 0
	for ; time.Since(began) < *long && (*most == 0 || done < *most); done++ {
		j := choose(*seed+uint64(done), lab.disk != "", lab.python != "")
		if !j.make(*only) {
			return fmt.Errorf("-only %s: use worn, buckets or feeds", *only)
		}
		if err := lab.try(ctx, j, out); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d jobs passed, 0 failed\n", done)
	return nil
}

// lab is where jobs are run: one at a time.
type lab struct {
	stint, self string // programs
	python      string // with the helper; empty: there is none
	dir         string // of all that is made
	disk        string // a small disk; empty: it cannot be mounted
	keep        string
	flags       string // that choose the same jobs
}

func newLab(ctx context.Context, program, keep string) (*lab, error) {
	dir, err := os.MkdirTemp("", "randomjobs")
	if err != nil {
		return nil, err
	}
	l := &lab{stint: program, dir: dir, keep: keep}
	if l.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if l.stint == "" {
		l.stint = filepath.Join(dir, "stint")
		build := exec.CommandContext(ctx, "go", "build", "-o", l.stint, "github.com/stint-run/stint")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return nil, errors.Join(fmt.Errorf("building stint: %w", err), os.RemoveAll(dir))
		}
	}
	l.python, _ = exec.LookPath("python3")
	l.disk, err = mountDisk(dir)
	return l, err
}

func (l *lab) close() {
	if l.disk != "" {
		unmount(l.disk)
	}
	_ = os.RemoveAll(l.dir)
}

// try runs a job. If it fails, try prints the simplest one that does, and returns an error.
func (l *lab) try(ctx context.Context, j job, out io.Writer) error {
	failed, err := l.attempt(ctx, j, "")
	if err != nil || failed == nil {
		return err
	}
	fmt.Fprintf(out, "seed %d failed: %v\nlooking for a simpler job that fails\n", j.seed, failed)
	simplest := l.simplify(ctx, j)
	again, err := l.attempt(ctx, simplest, l.keep)
	if err != nil {
		return err
	}
	if again != nil {
		failed = again
	}
	fmt.Fprintf(out, "%+v\n", simplest)
	return fmt.Errorf("1 job failed, seed %d: %w\nin short: go run ./internal/test/randomjobs -seed %d -jobs 1%s", j.seed, failed, j.seed, l.flags)
}

// attempt runs a job once. failed is what is wrong with it. If keep is set, its files are kept there.
func (l *lab) attempt(ctx context.Context, j job, keep string) (failed, err error) {
	items := j.makeItems()
	b, err := l.lay(j, items)
	if err != nil {
		return nil, err
	}
	defer b.clear()
	err = l.perform(ctx, j, b, items)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !errors.As(err, new(*failure)) {
		return nil, err
	}
	if keep != "" {
		_ = os.CopyFS(filepath.Join(keep, fmt.Sprint("job-", j.seed)), os.DirFS(b.dir))
	}
	return fmt.Errorf("%w\nfaults: %v\n%s", err, j.faults, j.shown(l, b)), nil
}

// simpler are changes that make a job simpler. One that changes nothing returns the same job.
var simpler = []func(j job) job{
	func(j job) job { j.faults = nil; return j },
	func(j job) job { j.faults = j.faults[:len(j.faults)/2]; return j },
	func(j job) job { j.faults = slices.Clone(j.faults[min(1, len(j.faults)):]); return j },
	func(j job) job { j.flags = nil; return j },
	func(j job) job { j.flags = j.flags[min(2, len(j.flags)):]; return j },
	func(j job) job { j.flags = j.flags[:max(0, len(j.flags)-2)]; return j },
	func(j job) job { j.even = false; return j },
	func(j job) job { j.heals = false; return j },
	func(j job) job { j.stages = 0; return j },
	func(j job) job { j.feed = false; return j },
	func(j job) job { j.bucket = ""; return j },
	func(j job) job { j.bucket = strings.Replace(j.bucket, "both", "output", 1); return j },
	func(j job) job { j.serve = false; return j },
	func(j job) job { j.each = false; return j },
	func(j job) job { j.reuse = false; return j },
	func(j job) job { j.unique = false; return j },
	func(j job) job { j.packed = ""; return j },
	func(j job) job { j.files = 1; return j },
	func(j job) job { j.output = "file"; return j },
	func(j job) job { j.format = "text"; return j },
	func(j job) job { j.broken = 0; return j },
	func(j job) job { j.flaky = 0; return j },
	func(j job) job { j.drops = 0; return j },
	func(j job) job { j.fails = 0; return j },
	func(j job) job { j.onError = ""; return j },
	func(j job) job { j.items = (j.items + 1) / 2; return j },
	func(j job) job { j.items = max(1, j.items-1); return j },
}

// simplify makes a job simpler as long as it still fails in one of two tries.
func (l *lab) simplify(ctx context.Context, j job) job {
	for again := true; again && ctx.Err() == nil; {
		again = false
		for _, change := range simpler {
			for {
				next := change(j).sensible()
				if fmt.Sprint(next) == fmt.Sprint(j) || !l.failsAgain(ctx, next) {
					break
				}
				j, again = next, true
			}
		}
	}
	return j
}

func (l *lab) failsAgain(ctx context.Context, j job) bool {
	for range 2 {
		if failed, err := l.attempt(ctx, j, ""); err == nil && failed != nil {
			return true
		}
	}
	return false
}
