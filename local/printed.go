package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// printedKey is the object in a job's store that names the run whose results have been printed as a whole. A job
// without an output of its own has not finished before that.
const printedKey = "PRINTED"

// print prints the results of a completed job that have not been printed while it ran, and notes that they have been.
func (r *run) print(ctx context.Context, report job.Report) error {
	to := &resultsWriter{w: r.o.Results}
	if _, err := outputs.Results(ctx, &r.access, report, outputs.Selection{From: r.printed}, to); err != nil {
		err = ledger.Plain(cmp.Or(to.err, err))
		if r.o.State == "" {
			return fmt.Errorf("printing the results: %w", err)
		}
		return fmt.Errorf("printing the results: %w; they are kept, and the same command prints them (--fresh runs it anew)", err)
	}
	dir, err := r.access.Open(ctx, report.Store)
	if err == nil {
		err = dir.Put(ctx, printedKey, []byte(report.Run))
	}
	if err != nil {
		return fmt.Errorf("noting that the results have been printed: %w", err)
	}
	return nil
}

// isUnprinted reports whether a job has completed and its results are kept, but have not been printed as a whole. There
// may be no report of it.
func (r *run) isUnprinted(ctx context.Context, report *job.Report) (bool, error) {
	if report == nil || report.State != job.Completed || r.spec.Output != "" {
		return false, nil
	}
	dir, err := r.access.Open(ctx, report.Store)
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
	if err := inputs.Unchanged(ctx, &r.access, *report); err != nil {
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
	w.err = cmp.Or(err, w.err)
	return n, err
}

// A state is used again and again, so a job that has completed leaves only what a later command reads: the history of
// its latest run, for what comes next, and its manifests. Jobs of other names are left alone; the server removes their
// histories after its retention.

const (
	// tidyLimit is how long tidying may take. What it does not come to, a later run removes.
	tidyLimit = 5 * time.Second
	tidyPage  = 1000
)

// tidy removes what the completed job has left that no command reads any more. It has nothing to say to anybody if that
// fails.
func (r *run) tidy(ctx context.Context, c sdkclient.Client, namespace string, report job.Report) {
	if report.State != job.Completed || r.o.State == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tidyLimit)
	defer cancel()
	if err := forgetEarlier(ctx, c, namespace, report); err != nil {
		r.o.Logger.Warn("removing the histories of earlier runs", "job", report.Job, "error", err)
	}
	if !r.ownStore || r.spec.Output != "" || report.Failed > 0 {
		return
	}
	// Results that have been printed are with whoever wanted them, and no failed item can be run again.
	if err := r.removePrinted(ctx, report); err != nil {
		r.o.Logger.Warn("removing the parts of printed results", "job", report.Job, "error", err)
	}
}

// forgetEarlier removes the histories of the job's runs before this one, and of their legs. Resume and redrive go by
// the latest run.
func forgetEarlier(ctx context.Context, c sdkclient.Client, namespace string, report job.Report) error {
	var token []byte
	for {
		page, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("ExecutionStatus != 'Running' AND (WorkflowId = '%s' OR WorkflowId STARTS_WITH '%s') AND StartTime < '%s'",
				report.Job, wire.LegsPrefix(report.Job), report.Started.UTC().Format(time.RFC3339Nano)),
			PageSize: tidyPage, NextPageToken: token,
		})
		if err != nil {
			return err
		}
		for _, info := range page.GetExecutions() {
			if cmp.Or(info.GetFirstRunId(), info.GetExecution().GetRunId()) == report.Run {
				continue
			}
			if err := forget(ctx, c, namespace, info); err != nil {
				return err
			}
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			return nil
		}
	}
}

func forget(ctx context.Context, c sdkclient.Client, namespace string, info *workflow.WorkflowExecutionInfo) error {
	_, err := c.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: namespace, WorkflowExecution: &common.WorkflowExecution{
			WorkflowId: info.GetExecution().GetWorkflowId(), RunId: info.GetExecution().GetRunId(),
		},
	})
	return err
}

// removePrinted removes the parts of a run, of which all results have been printed, and those of the runs that it
// continues: their store is the job's own.
func (r *run) removePrinted(ctx context.Context, report job.Report) error {
	dir, err := r.access.Open(ctx, report.Store)
	if err != nil {
		return err
	}
	done := wire.Ref{Run: report.Run}.DoneKey()
	_, err = dir.Sweep(ctx, "", func(key string) bool {
		return key == done || !strings.Contains(key, "/") || strings.HasPrefix(key, reuse.Folder) // others are of no run
	})
	return err
}
