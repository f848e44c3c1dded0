package local

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
)

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
	var access store.Access
	defer access.Close()
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return err
	}
	done := wire.Ref{Run: report.Run}.DoneKey()
	_, err = dir.Sweep(ctx, "", func(key string) bool { return key == done || !strings.Contains(key, "/") }) // others are of no run
	return err
}
