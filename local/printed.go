package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// printedKey is the object in a job's store that names the run whose results have been printed as a whole. A job without an output of
// its own has not finished before that.
const printedKey = "PRINTED"

// print prints the results of a completed job that have not been printed while it ran, and notes that they have been.
func (r *run) print(ctx context.Context, report job.Report) error {
	var access store.Access
	defer access.Close()
	to := &resultsWriter{w: r.o.Results}
	if _, err := outputs.Results(ctx, &access, report, outputs.Selection{From: r.printed}, to); err != nil {
		err = ledger.Plain(to.orOther(err))
		if r.o.State == "" {
			return fmt.Errorf("printing the results: %w", err)
		}
		return fmt.Errorf("printing the results: %w; they are kept, and the same command prints them (--fresh runs it anew)", err)
	}
	dir, err := access.Open(ctx, report.Store)
	if err == nil {
		err = dir.Put(ctx, printedKey, []byte(report.Run))
	}
	if err != nil {
		return fmt.Errorf("noting that the results have been printed: %w", err)
	}
	return nil
}

// isUnprinted reports whether a job has completed and its results are kept, but have not been printed as a whole. There may be no
// report of it.
func (r *run) isUnprinted(ctx context.Context, report *job.Report) (bool, error) {
	if report == nil || report.State != job.Completed || r.spec.Output != "" {
		return false, nil
	}
	var access store.Access
	defer access.Close()
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return false, err
	}
	var printed []byte
	err = r.throughOutage(ctx, func() error {
		printed, err = dir.Get(ctx, printedKey)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if string(printed) == report.Run {
		return false, nil
	}
	done, err := ledger.ReadDone(ctx, dir, report.Run)
	return done != nil, err // without it somebody has cleared the store
}

// noteUnprinted says why nothing is run.
func (r *run) noteUnprinted(ctx context.Context, report *job.Report) {
	text := "%s has completed, but its results were not printed as a whole: printing those that are kept"
	if r.spec.Streams() {
		text += "; the standard input is not read"
	}
	var access store.Access
	defer access.Close()
	if err := inputs.Unchanged(ctx, &access, *report); err != nil {
		text += "; they are those of its inputs as they were, and an input has changed since, or is gone"
	}
	r.note(text+" (--fresh runs it anew)", r.spec.Name)
}

// resultsWriter notes by which error printing has ended: that of where the results go, or else that of reading them.
type resultsWriter struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (w *resultsWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

func (w *resultsWriter) orOther(err error) error {
	if w.err != nil {
		return w.err
	}
	return err
}
