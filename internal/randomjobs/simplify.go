package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	return fmt.Errorf("1 job failed, seed %d: %w\nin short: go run ./internal/randomjobs -seed %d -jobs 1%s", j.seed, failed, j.seed, l.flags)
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
	var wrong *failure
	if !errors.As(err, &wrong) {
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
