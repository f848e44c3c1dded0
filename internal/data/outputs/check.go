package outputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
)

// Check returns an error if the job's output, errors or report could not be written, before any work is done for them.
// unfenced is one of them that lies in a bucket without conditional writes: see [store.Conditional].
func Check(ctx context.Context, access ledger.Access, spec job.Spec) (unfenced string, err error) {
	if err := checkApart(ctx, access, spec); err != nil {
		return "", err
	}
	_, _, scheduled := limits.ScheduledName(spec.Name)
	for _, location := range []string{spec.Output, spec.Errors, spec.Dropped, spec.Report, spec.NewFilesList()} {
		inOutput := location != spec.Output && store.IsPrefix(spec.Output) && strings.HasPrefix(location, spec.Output)
		if location == "" || inOutput {
			continue
		}
		makes := makesNone
		switch {
		case scheduled:
			makes = makesAll
		case spec.Split != "" && beside(spec.Output, location):
			makes = makesLast
		}
		fenced, err := checkOutput(ctx, access, location, makes)
		if err != nil {
			return "", err
		}
		if !fenced {
			unfenced = location
		}
	}
	return unfenced, nil
}

// makes says which missing directories of a file are made.
type makes int

const (
	makesNone makes = iota
	makesLast       // the last one of the path
	makesAll        // of a schedule's run, whose time may be in their names
)

// checkApart returns an error if one of the files would replace another; what is written into a device or a pipe
// replaces nothing. What shows without a look at links is refused earlier.
func checkApart(ctx context.Context, access ledger.Access, spec job.Spec) error {
	taken := map[string]string{}
	for _, location := range []string{spec.Output, spec.Errors, spec.Dropped, spec.Report} {
		if location == "" || store.IsPrefix(location) || isSink(ctx, access, location) {
			continue
		}
		name := store.Target(location)
		if other := taken[name]; other != "" {
			return ledger.Permanent(job.ErrorOutput, fmt.Errorf("output %s is the same file as %s, which it would replace: name another place", location, other))
		}
		taken[name] = location
	}
	return nil
}

// beside reports whether two files lie in one directory.
func beside(a, b string) bool {
	dirA, _, errA := store.Split(a)
	dirB, _, errB := store.Split(b)
	return errA == nil && errB == nil && dirA == dirB
}

// checkOutput returns an error if a location could not be written, and whether what lies there is safe from a run that
// was frozen.
func checkOutput(ctx context.Context, access ledger.Access, location string, makes makes) (fenced bool, err error) {
	name := "stint-check"
	dirLocation := location
	if !store.IsPrefix(location) {
		if dirLocation, name, err = store.Split(location); err != nil {
			return false, ledger.Permanent(job.ErrorOutput, fmt.Errorf("output %s: %w", location, err))
		}
	}
	dir, err := access.Open(ctx, dirLocation)
	if err != nil {
		return false, ledger.StoreError(job.ErrorOutput, err)
	}
	if local, ok := dir.Local(); ok {
		if err := checkLocal(location, local, name, makes); err != nil {
			return false, ledger.Permanent(job.ErrorOutput, err)
		}
	}
	if !store.IsPrefix(location) {
		if sink, err := store.Sink(dir, name); err != nil || sink {
			return true, ledger.StoreError(job.ErrorOutput, err)
		}
	}
	// An object of another name shows whether writing is permitted.
	probe := name + ".check-" + ledger.NewToken()
	if err := dir.Put(ctx, probe, nil); err != nil {
		return false, ledger.StoreError(job.ErrorOutput, err)
	}
	if err := dir.Delete(ctx, probe); err != nil {
		return false, ledger.StoreError(job.ErrorOutput, err)
	}
	fenced, err = store.Conditional(ctx, dir, name)
	return fenced, ledger.StoreError(job.ErrorOutput, err)
}

// checkLocal returns an error if a local output has no directory to lie in, or a directory in its place.
// Directories that are made may be missing.
func checkLocal(location, dir, name string, makes makes) error {
	there, err := os.Stat(filepath.Join(dir, name))
	switch {
	case store.IsPrefix(location):
		dir = filepath.Dir(filepath.Clean(dir)) // the output directory itself is made
	case err == nil && there.IsDir():
		return fmt.Errorf("output %s is a directory: write %s/ to keep the parts in it, or name a file", location, location)
	case makes == makesLast:
		dir = filepath.Dir(dir)
	}
	if makes == makesAll {
		dir = firstThere(dir)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("output %s: there is no directory %s: make it first", location, dir)
	case err != nil:
		return fmt.Errorf("output %s: %w", location, err)
	case !info.IsDir():
		return fmt.Errorf("output %s: %s is not a directory", location, dir)
	}
	return nil
}

// firstThere returns a directory, or what is there of the directories that it lies in.
func firstThere(dir string) string {
	for {
		_, err := os.Stat(dir)
		above := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || above == dir {
			return dir
		}
		dir = above
	}
}
