// Command randomjobs runs seeded random jobs of `stint run`, and feeds, has runs killed and stopped, their disk filled
// up and their bucket out of order, and compares what the jobs leave with a model of a few lines. If one fails, it looks
// for the simplest job that still does, prints its command, and ends with status 1.
//
//		go run ./internal/randomjobs -for 1h
//		go run ./internal/randomjobs -seed 4711 -jobs 1
//
//	  - job.go: a random job, and its command line
//	  - items.go: items, as inputs have them
//	  - handler.go: the handlers' answers, and the programs that give them
//	  - model.go: what a job has to leave
//	  - run.go: running a job through its faults
//	  - bucket.go: an object store that has outages
//	  - feed.go: a feed, its clients and its faults
//	  - simplify.go: the simplest job that fails
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
		"buckets or feeds")
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
