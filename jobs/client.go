package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/temporal/search"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// Client starts, watches and stops jobs. It is safe for concurrent use. The caller closes the
// Temporal client; a Client has nothing to close.
type Client struct {
	temporal   client.Client
	converter  converter.DataConverter
	namespace  string // "": not known
	searchable func(context.Context) bool
}

// ClientOptions may be left zero.
type ClientOptions struct {
	// DataConverter is the one that the Temporal client was made with: a Temporal client cannot be
	// asked for it. If it is missing although the client encrypts, jobs are listed without their
	// pool and state, and cannot be resumed, and workers do not find the deadline of a stop. Default: the SDK's default
	// converter.
	DataConverter converter.DataConverter
	// Namespace is that of the Temporal client, which cannot be asked for it either. With it jobs get search attributes
	// (StintPool, StintState, StintPercent, StintFailed), if the server has them or lets the client register them.
	// Default: they get none.
	Namespace string
}

// NewClient returns a Client that uses the Temporal client c. The options may be nil.
func NewClient(c client.Client, o *ClientOptions) *Client {
	options := orZero(o)
	if options.DataConverter == nil {
		options.DataConverter = converter.GetDefaultDataConverter()
	}
	return &Client{
		temporal: c, converter: options.DataConverter, namespace: options.Namespace, searchable: searching(c, options.Namespace),
	}
}

// orZero returns what options point to, or zero ones.
func orZero[T any](options *T) T { return *cmp.Or(options, new(T)) }

// Temporal returns the Temporal client.
func (c *Client) Temporal() client.Client { return c.temporal }

// DataConverter returns the converter of the Temporal client, as the options named it.
func (c *Client) DataConverter() converter.DataConverter { return c.converter }

// DefaultTaskTimeout is the workflow task timeout of jobs: how long one that has been given to a worker waits for it,
// if it is frozen or dies, until another worker gets it. See docs/decisions/056-workflow-task-timeout.md.
const DefaultTaskTimeout = 5 * time.Second

// StartOptions say what happens to an earlier job of the same name. All may be left zero.
type StartOptions struct {
	// Fresh starts anew if a job of the name exists; one that still runs is terminated.
	Fresh bool
	// Resume lists the manifests (Report.Manifests) of a stopped or failed run: the items that have an
	// outcome there are not run again. [Client.Resume] sets it.
	Resume []string
	// Reuse allows that an ended job of the name exists, as Fresh and Resume do.
	Reuse bool
	// Spent and Lost are what the job's earlier runs have used of services that are paid for ([job.Totals].Usage and
	// LostUsage). They count for the job's budget. [Client.Resume] sets them.
	Spent, Lost job.Usage
	// Samples are those of the job's earlier runs ([job.Report].Samples), with which the report of the new one begins.
	// [Client.Resume] sets them.
	Samples []job.Sample
	// Earlier lists the runs that the new one takes the place of (see [Client.EarlierRuns]). [Client.Resume] sets it.
	Earlier []string
	// Root is the first of the runs that the new one continues (see [Client.RootRun]). [Client.Resume] sets it.
	Root string
	// TaskTimeout is the workflow task timeout: 0 or more, default [DefaultTaskTimeout].
	TaskTimeout time.Duration

	redrive  *job.Redrive      // see [Client.Redrive]
	salvage  []json.RawMessage // see [Client.Resume]
	loop     []job.LoopSlot    // see [Client.Resume]
	accepted int64             // see [Client.Resume]
	versions []job.WorkerShare // see [Client.Resume]
}

// ExistsError reports that a job of the name exists already.
type ExistsError struct{ Name string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("a job named %q exists already: choose another name, or start it anew with StartOptions.Fresh", e.Name)
}

// NotFoundError reports that there is no job of the name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no job named %q", e.Name) }

// Start starts a job. It returns once the server has recorded the start. The options may be nil. Errors: *ExistsError
// if the name exists, and those of [job.Spec.Validate].
func (c *Client) Start(ctx context.Context, spec job.Spec, options *StartOptions) (*Run, error) {
	o := orZero(options)
	spec, err := c.withReuse(ctx, spec)
	if err != nil {
		return nil, err
	}
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("job spec: %w", err)
	}
	of := kindOf(spec, o.redrive)
	opts := client.StartWorkflowOptions{
		ID:                                       spec.Name,
		TaskQueue:                                wire.AtLogic(wire.WorkflowQueue, wire.LogicVersion),
		WorkflowTaskTimeout:                      cmp.Or(o.TaskTimeout, DefaultTaskTimeout),
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		StaticSummary:                            of.summary(spec),
		StaticDetails:                            of.details(spec),
		Memo:                                     of.memoOf(spec),
		Priority:                                 temporal.Priority{PriorityKey: spec.Priority},
	}
	if o.Fresh || o.Reuse || len(o.Resume) > 0 {
		opts.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	if o.Fresh {
		opts.WorkflowIDConflictPolicy = enums.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
	}
	in := wire.StartInput{Spec: spec, Resume: o.Resume, Redrive: o.redrive, Salvage: o.salvage, Loop: o.loop, Accepted: o.accepted, Spent: o.Spent, Lost: o.Lost, Versions: o.versions, Life: job.Report{Samples: o.Samples}.WithLife().Life, Earlier: o.Earlier, Root: o.Root, Version: wire.LogicVersion}
	var handle client.WorkflowRun
	err = c.withAttributes(ctx, in, func(in wire.StartInput, attributes temporal.SearchAttributes) (err error) {
		opts.TypedSearchAttributes = attributes
		handle, err = c.temporal.ExecuteWorkflow(ctx, opts, wire.WorkflowJob, in)
		return err
	})
	if _, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		return nil, &ExistsError{Name: spec.Name}
	}
	if err != nil {
		return nil, fmt.Errorf("starting job %s: %w", spec.Name, err)
	}
	return &Run{client: c, name: spec.Name, run: handle.GetRunID(), pool: spec.Pool}, nil
}

// withAttributes calls start with an input whose job has search attributes, if the server has them; and without if it
// has not, or refuses them.
func (c *Client) withAttributes(
	ctx context.Context, in wire.StartInput, start func(wire.StartInput, temporal.SearchAttributes) error,
) error {
	if c.searchable(ctx) {
		searchable := in
		searchable.Searchable = true
		err := start(searchable, search.Attributes{Pool: in.Spec.Pool, State: job.Running}.Typed())
		if _, refused := errors.AsType[*serviceerror.InvalidArgument](err); !refused {
			return err
		}
	}
	return start(in, temporal.SearchAttributes{})
}

func (k kind) summary(s job.Spec) string {
	return text.Fit(fmt.Sprintf("%s · %s", describeHandler(s), k.items(s)), maxSummary)
}

// maxSummary and maxDetails are what Temporal takes of a workflow's summary and details, in bytes as JSON, with some
// room.
const (
	maxSummary = 350
	maxDetails = 16_000
)

// describeHandler says what the items go through, for people.
func describeHandler(s job.Spec) string {
	if len(s.Stages) == 0 {
		return "pool " + s.Pool
	}
	names := make([]string, len(s.Stages))
	for i := range s.Stages {
		names[i] = s.Stages[i].Name
	}
	const most = 100 // bytes
	return "stages " + text.Cut(strings.Join(names, ", "), most)
}

func (k kind) memoOf(s job.Spec) map[string]any {
	memo := map[string]any{
		wire.MemoPool: s.Pool, wire.MemoOutput: s.Output, wire.MemoState: job.Running, wire.MemoSource: s.Source(), wire.MemoFormat: s.Format,
	}
	maps.Copy(memo, k.memo)
	if len(s.Stages) > 0 {
		memo[wire.MemoPools] = s.Pools()
	}
	return memo
}

func (k kind) details(s job.Spec) string {
	output := s.Output
	switch {
	case s.Store == "":
		output = "none"
	case output == "":
		output = "parts in " + s.Store
	}
	details := fmt.Sprintf("Source %s\n\nOutput %s\n\nWindow %s · expiry %v · attempts %d",
		k.items(s), output, limits.DescribeWindow(s.Window, 0), s.Expiry, s.Attempts)
	return text.Fit(details, maxDetails)
}

// Get returns the latest run of the job of that name. It does not ask the server, so the job need not
// exist.
func (c *Client) Get(name string) *Run { return &Run{client: c, name: name} }

// Listed is one job in a list.
type Listed struct {
	Name    string     `json:"name"`
	Run     string     `json:"run"`
	Pool    string     `json:"pool"`
	Pools   []string   `json:"pools,omitempty"` // of a pipeline: those of all stages
	Source  string     `json:"source"`          // [SourceFiles], [SourceFeed] or [SourceClock]; empty if it is not known
	State   job.State  `json:"state"`
	Output  string     `json:"output,omitempty"`
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
	// PausedSince is since when the running job is paused; nil: it is not.
	PausedSince *time.Time `json:"paused_since,omitempty"`
	// Format is that of a feed's items: "jsonl" or "text".
	Format string `json:"format,omitempty"`
	// Progress is how far the job had come at a time; nil if it has not said so yet. It does so seldom: whenever the
	// items done have doubled, or a tenth has been added, and at its end if not every item is ok.
	Progress *job.Counted `json:"progress,omitempty"`
	// Stuck means that a workflow task of the running job has failed, or got no answer, several times in a row: see
	// [Run.FailingTask]. Older servers do not report that.
	Stuck bool `json:"stuck,omitempty"`
	// Needs says which release of stint the running job needs, if no worker that polls knows its logic: see [Run.Needs].
	// [Client.List] and [Client.ListPage] set it.
	Needs string `json:"needs,omitempty"`
}

// Reaches reports whether the job's items reach the pool: it is the job's, or that of a stage.
func (l Listed) Reaches(pool string) bool { return l.Pool == pool || slices.Contains(l.Pools, pool) }

// Run is a job that has been started.
type Run struct {
	client *Client
	name   string
	run    string // first run ID; "" is the latest
	pool   string // "" if it is not known
}

// Name returns the job's name.
func (r *Run) Name() string { return r.name }

// Pool returns the pool of a job that this client has started; empty for one that [Client.Get] returned.
func (r *Run) Pool() string { return r.pool }

// ID returns the first run ID of a job that this client has started, which is also the key of its
// data in the store. It is empty for one that [Client.Get] returned.
func (r *Run) ID() string { return r.run }

// errorWorkflow is the type of an error by which a workflow has failed without a report: a defect.
const errorWorkflow = "Workflow"

// info returns what the server knows about the job's latest run.
func (r *Run) info(ctx context.Context) (*workflow.WorkflowExecutionInfo, error) {
	desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, r.name, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return nil, &NotFoundError{Name: r.name}
	}
	if err != nil {
		return nil, fmt.Errorf("asking for job %s: %w", r.name, err)
	}
	info := desc.GetWorkflowExecutionInfo()
	if info.GetType().GetName() != wire.WorkflowJob {
		return nil, &NotFoundError{Name: r.name}
	}
	return info, nil
}

// Listed returns what the server knows of the job's latest run. It needs no worker. An unknown name is a
// *NotFoundError.
func (r *Run) Listed(ctx context.Context) (Listed, error) {
	info, err := r.info(ctx)
	if err != nil {
		return Listed{}, err
	}
	return r.client.listed(info), nil
}

// Report returns the job's present state. For a running job, and for one that Temporal itself has ended, a worker must
// answer; without one, Report fails when ctx ends (see [Client.Pollers]). It then returns, beside the error, the last
// numbers that are known, and their time (Report.AsOf). An unknown name is a *NotFoundError.
func (r *Run) Report(ctx context.Context) (job.Report, error) {
	return r.reportWith(ctx, newJobProgress(r).ask)
}

// ownReport is Report without what only its legs know, which are not asked: what has been committed is the job's.
func (r *Run) ownReport(ctx context.Context) (job.Report, error) {
	return r.reportWith(ctx, func(ctx context.Context) (job.Report, error) {
		answer, err := r.ask(ctx, nil)
		return answer.Report, err
	})
}

// reportWith asks a job that runs for its report, and reads that of another.
func (r *Run) reportWith(ctx context.Context, ask func(context.Context) (job.Report, error)) (job.Report, error) {
	report, err := r.anyReport(ctx, ask)
	return report.WithSamples(), err
}

func (r *Run) anyReport(ctx context.Context, ask func(context.Context) (job.Report, error)) (job.Report, error) {
	info, err := r.info(ctx)
	if err != nil {
		return job.Report{}, err
	}
	if closedByServer(info.GetStatus()) {
		return r.lastWords(ctx, fmt.Sprintf("Temporal has ended the workflow: %s", info.GetStatus()), info.GetCloseTime().AsTime())
	}
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		report, err := (&Run{client: r.client, name: r.name}).Wait(ctx)
		if _, ok := errors.AsType[*FailedError](err); !ok {
			return report, err
		}
		if report.Error != nil && report.Error.Type == errorWorkflow {
			return r.lastWords(ctx, "the workflow has failed: "+report.Error.Message, info.GetCloseTime().AsTime())
		}
		return report, nil
	}
	return ask(ctx)
}
