package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/temporal/search"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// ListFilter chooses jobs: those in one of the states and of one of the pools, their own or that of a stage. An empty
// list chooses all.
type ListFilter struct {
	States []job.State
	Pools  []string
	// Running leaves out the jobs that have ended.
	Running bool
	// Name is what the jobs' names begin with; empty: anything.
	Name string
	// EndedSince leaves out the jobs that have ended before. Default: none of them.
	EndedSince time.Time
}

func (f ListFilter) chooses(j Listed) bool {
	return strings.HasPrefix(j.Name, f.Name) && (len(f.States) == 0 || slices.Contains(f.States, j.State)) && (len(f.Pools) == 0 || slices.ContainsFunc(f.Pools, j.Reaches))
}

// JobsQuery is the list filter of Temporal, also of its web UI, that finds jobs and leaves out their legs.
const JobsQuery = "WorkflowType = '" + wire.WorkflowJob + "' AND (TaskQueue = '" + wire.WorkflowQueue + "' OR TaskQueue STARTS_WITH '" + wire.WorkflowQueue + "@')"

// searchProblems is the search attribute by which the server itself reports a workflow whose workflow task has failed,
// or has timed out, five times in a row.
const searchProblems = "TemporalReportedProblems"

// TroubleQuery is the list filter that finds the jobs that were stopped, have failed, have failed items, or are stuck.
// The server must have the search attributes of jobs (StintPool, StintState, StintPercent, StintFailed), and report
// problems, as Temporal does from 1.30 on.
const TroubleQuery = JobsQuery + " AND (" + wire.SearchState + " = 'stopped' OR " + wire.SearchFailed + " > 0" +
	" OR ExecutionStatus = 'Failed' OR ExecutionStatus = 'Terminated'" +
	" OR " + searchProblems + " IN ('category=WorkflowTaskFailed', 'category=WorkflowTaskTimedOut'))"

// query is the list filter of Temporal that finds the jobs, and perhaps others.
func (f ListFilter) query() string {
	query := JobsQuery
	switch {
	case f.Running:
		query += " AND ExecutionStatus = 'Running'"
	case !f.EndedSince.IsZero():
		query += fmt.Sprintf(" AND (ExecutionStatus = 'Running' OR CloseTime >= '%s')", f.EndedSince.UTC().Format(time.RFC3339))
	}
	if limits.CheckBeginning(f.Name) == nil {
		query += " AND WorkflowId STARTS_WITH '" + f.Name + "'"
	}
	if len(f.States) > 0 && !f.Running {
		var closed []string
		for _, s := range f.States {
			closed = append(closed, closedAs[s]...)
		}
		slices.Sort(closed)
		query += " AND ExecutionStatus IN ('" + strings.Join(slices.Compact(closed), "', '") + "')"
	}
	return query
}

// closedAs are Temporal's statuses of the workflow of a job in each state.
var closedAs = map[job.State][]string{
	job.Running: {"Running"}, job.Stopping: {"Running"}, job.Completed: {"Completed"}, job.Stopped: {"Completed"},
	job.Failed: {"Failed", "Terminated", "TimedOut", "Canceled"},
}

// ListPage is a part of a list of jobs.
type ListPage struct {
	Jobs []Listed
	// Next continues the list; empty: it has ended. It is of use only with the same filter.
	Next []byte
}

// pageLooks is how many jobs are looked at for a page at most: of those that the server itself cannot choose.
const pageLooks = 10_000

// ListPage returns the jobs of a filter, which may be nil, from a place on that an earlier page has returned, or from
// the latest one on: about so many, and fewer or none, with Next, if the filter chooses few of many.
func (c *Client) ListPage(ctx context.Context, size int, filter *ListFilter, from []byte) (ListPage, error) {
	f, size := orZero(filter), max(1, size)
	page := ListPage{Next: from}
	needs := needsByQueue{client: c, known: map[string]string{}}
	for looked := 0; looked < pageLooks; {
		resp, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: f.query(), PageSize: int32(size), NextPageToken: page.Next,
		})
		if err != nil {
			return ListPage{}, fmt.Errorf("listing jobs: %w", err)
		}
		looked += size
		if page.Jobs, err = c.appendChosen(ctx, page.Jobs, resp.GetExecutions(), f, needs); err != nil {
			return ListPage{}, err
		}
		if page.Next = resp.GetNextPageToken(); len(page.Next) == 0 || len(page.Jobs) >= size {
			break
		}
	}
	return page, nil
}

// appendChosen appends those of a page of the server's that a filter chooses.
func (c *Client) appendChosen(ctx context.Context, jobs []Listed, infos []*workflow.WorkflowExecutionInfo, f ListFilter, needs needsByQueue) ([]Listed, error) {
	for _, info := range infos {
		if info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			continue
		}
		j := c.listed(info)
		if !f.chooses(j) {
			continue
		}
		var err error
		if j.Needs, err = needs.of(ctx, info); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// List returns the jobs that the namespace knows, the latest first, at most limit of them. The filter may be nil: all.
func (c *Client) List(ctx context.Context, limit int, filter *ListFilter) ([]Listed, error) {
	f := orZero(filter)
	query := f.query()
	var jobs []Listed
	var token []byte
	needs := needsByQueue{client: c, known: map[string]string{}}
	for len(jobs) < limit {
		resp, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query:         query,
			PageSize:      int32(min(limit-len(jobs), 1000)),
			NextPageToken: token,
		})
		if err != nil {
			return nil, fmt.Errorf("listing jobs: %w", err)
		}
		if jobs, err = c.appendChosen(ctx, jobs, resp.GetExecutions(), f, needs); err != nil {
			return nil, err
		}
		if token = resp.GetNextPageToken(); len(token) == 0 {
			break
		}
	}
	return jobs, nil
}

// needsByQueue asks once for each task queue what its jobs need.
type needsByQueue struct {
	client *Client
	known  map[string]string
}

func (n needsByQueue) of(ctx context.Context, info *workflow.WorkflowExecutionInfo) (string, error) {
	queue := info.GetTaskQueue()
	if said, ok := n.known[queue]; ok || info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return said, nil
	}
	said, err := n.client.needs(ctx, queue)
	if err != nil {
		return "", fmt.Errorf("asking who coordinates jobs: %w", err)
	}
	n.known[queue] = said
	return said, nil
}

// listed reads one entry. Servers need not list the first run of a chain: the run is then the last.
func (c *Client) listed(info *workflow.WorkflowExecutionInfo) Listed {
	l := Listed{
		Name:    info.GetExecution().GetWorkflowId(),
		Run:     cmp.Or(info.GetFirstRunId(), info.GetExecution().GetRunId()),
		Pool:    memoValue[string](c, info.GetMemo(), wire.MemoPool),
		Output:  memoValue[string](c, info.GetMemo(), wire.MemoOutput),
		Pools:   memoValue[[]string](c, info.GetMemo(), wire.MemoPools),
		Source:  memoValue[string](c, info.GetMemo(), wire.MemoSource),
		Format:  memoValue[string](c, info.GetMemo(), wire.MemoFormat),
		State:   job.State(memoValue[string](c, info.GetMemo(), wire.MemoState)),
		Started: info.GetStartTime().AsTime(),
	}
	if at := memoValue[job.Counted](c, info.GetMemo(), wire.MemoProgress); !at.At.IsZero() {
		l.Progress = &at
	}
	l.Stuck = info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING && info.GetSearchAttributes().GetIndexedFields()[searchProblems] != nil
	if at := memoValue[time.Time](c, info.GetMemo(), wire.MemoPaused); !at.IsZero() && l.State == job.Running {
		l.PausedSince = &at
	}
	if info.GetCloseTime() != nil {
		ended := info.GetCloseTime().AsTime()
		l.Ended = &ended
	}
	// The workflow's final status takes precedence over its memo.
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		l.PausedSince = nil
		if l.State != job.Stopped {
			l.State = job.Completed
		}
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED,
		enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		l.State, l.PausedSince = job.Failed, nil
	}
	return l
}

// searchLimit is how long it may take to find out whether the server has them.
const searchLimit = 3 * time.Second

// searching returns a function that reports whether the server has the search attributes of jobs. It asks the server
// once, and registers them if they are missing: the next client can use them, a little later.
func searching(c client.Client, namespace string) func(context.Context) bool {
	if namespace == "" {
		return func(context.Context) bool { return false }
	}
	var once sync.Once
	var has bool
	return func(ctx context.Context) bool {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(ctx, searchLimit)
			defer cancel()
			known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
			if err != nil {
				return // the job is worth starting without
			}
			has = true
			for name, kind := range search.Types() {
				has = has && known.GetCustomAttributes()[name] == kind
			}
			if !has {
				_, _ = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
					Namespace: namespace, SearchAttributes: search.Types(),
				}) // most servers leave that to their operators
			}
		})
		return has
	}
}

// memoValue reads a field of a memo. It returns the zero value if the field is missing, has another
// type or cannot be decoded.
func memoValue[T any](c *Client, memo *common.Memo, field string) T {
	var none T
	p := memo.GetFields()[field]
	if p == nil {
		return none
	}
	// The SDK itself writes a memo with the default converter if the client's cannot.
	for _, from := range []converter.DataConverter{c.converter, converter.GetDefaultDataConverter()} {
		var v T
		if from.FromPayload(p, &v) == nil {
			return v
		}
	}
	return none
}

// PoolWorker is a process that serves a pool.
type PoolWorker struct {
	Pool   string    `json:"pool"`
	Worker string    `json:"worker"`
	Seen   time.Time `json:"seen"` // when it last polled for a batch
	// Slots is how many batches make calls at once; left out: it is not known.
	Slots int `json:"slots,omitempty"`
	// Program is its version of stint, and Version that of its handler; left out: it is not known.
	Program string `json:"program,omitempty"`
	Version string `json:"version,omitempty"`
}

// Workers returns the processes that have polled for a pool's batches within the last minutes, as the server saw them,
// by name. A worker whose slots are all busy does not poll for batches. If nobody has polled for batches, Workers
// returns those that polled for the work outside the slots.
func (c *Client) Workers(ctx context.Context, pool string) ([]PoolWorker, error) {
	pollers, err := c.pollers(ctx, pool)
	if err != nil {
		return nil, err
	}
	var found []PoolWorker
	for _, p := range pollers {
		of := wire.ParseIdentity(p.GetIdentity())
		found = append(found, PoolWorker{Pool: pool, Worker: of.Worker, Seen: p.GetLastAccessTime().AsTime(), Slots: of.Slots, Program: of.Program, Version: of.Version})
	}
	slices.SortFunc(found, func(a, b PoolWorker) int { return cmp.Compare(a.Worker, b.Worker) })
	return found, nil
}

// Pollers returns the number of [Client.Workers].
func (c *Client) Pollers(ctx context.Context, pool string) (int, error) {
	pollers, err := c.pollers(ctx, pool)
	return len(pollers), err
}

func (c *Client) pollers(ctx context.Context, pool string) ([]*taskqueue.PollerInfo, error) {
	for _, queue := range []string{wire.PoolQueue(pool), wire.IOQueue(pool)} {
		pollers, err := lookup.Pollers(ctx, c.temporal, enums.TASK_QUEUE_TYPE_ACTIVITY, ofAllLogics(queue)...)
		if err != nil {
			return nil, fmt.Errorf("asking who serves pool %s: %w", pool, err)
		}
		if len(pollers) > 0 {
			return pollers, nil
		}
	}
	return nil, nil
}

// ofAllLogics returns the task queues of that name, of all versions of the logic that are known here.
func ofAllLogics(queue string) (all []string) {
	for _, logic := range wire.Logics() {
		all = append(all, wire.AtLogic(queue, logic))
	}
	return all
}

// Needs says which release of stint the running job needs, if no worker that polls knows its logic: "needs stint ≥ 0.2".
// It returns "" if there is such a worker, or if that cannot be told from a pool without any. A job waits for one.
func (r *Run) Needs(ctx context.Context) (string, error) {
	info, err := r.info(ctx)
	if err != nil || info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", err
	}
	return r.client.needs(ctx, info.GetTaskQueue())
}

// PinnedPollers counts the workers that have polled, within the last minutes, for the batches of a job that is pinned to
// a version of the handler.
func (r *Run) PinnedPollers(ctx context.Context, report job.Report) (int, error) {
	info, err := r.info(ctx)
	if err != nil {
		return 0, err
	}
	queue := wire.AtLogic(wire.PinnedQueue(report.Pool, report.Pinned), wire.LogicOf(info.GetTaskQueue()))
	pollers, err := lookup.Pollers(ctx, r.client.temporal, enums.TASK_QUEUE_TYPE_ACTIVITY, queue)
	return len(pollers), err
}

// needs is [Run.Needs] of jobs on a task queue.
func (c *Client) needs(ctx context.Context, queue string) (string, error) {
	logic := wire.LogicOf(queue)
	if logic <= 1 && wire.Knows(logic) {
		return "", nil
	}
	pollers, err := lookup.Pollers(ctx, c.temporal, enums.TASK_QUEUE_TYPE_WORKFLOW, queue)
	if err != nil || len(pollers) > 0 {
		return "", err
	}
	return wire.NeedsRelease(logic), nil
}

// Pools returns the pools whose workers coordinate jobs: idle ones, too. They are known for some minutes after their
// last poll.
func (c *Client) Pools(ctx context.Context) ([]string, error) {
	pollers, err := lookup.Pollers(ctx, c.temporal, enums.TASK_QUEUE_TYPE_WORKFLOW, ofAllLogics(wire.WorkflowQueue)...)
	if err != nil {
		return nil, fmt.Errorf("asking who coordinates jobs: %w", err)
	}
	var pools []string
	for _, p := range pollers {
		if pool := wire.ParseIdentity(p.GetIdentity()).Pool; pool != "" {
			pools = append(pools, pool)
		}
	}
	slices.Sort(pools)
	return slices.Compact(pools), nil
}

// Percent returns how much of a listed job was done when it last noted its progress. It is not ok if that is not known.
func (l Listed) Percent() (percent int64, ok bool) {
	p := l.Progress
	switch {
	case l.State == job.Completed:
		return 100, true
	case p == nil || l.Source != job.SourceFiles:
		return 0, false
	}
	return p.Percent()
}
