package feedclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Job is what is known of a feed's job.
type Job interface {
	// Open returns the number of the leg that takes items, 0 if there is none yet, and the task queue of its pool. Errors:
	// *[EndedError].
	Open(ctx context.Context) (number int, queue string, err error)
	// Ended is that of [Legs].
	Ended(ctx context.Context, reason string) error
}

// temporalLegs are the legs of a feed on a Temporal server.
type temporalLegs struct {
	Job
	server client.Client
	name   string
	queue  atomic.Value // string: as the job was last found to have it
}

// Temporal returns the legs of the feed of that name.
func Temporal(server client.Client, name string, job Job) Legs {
	return &temporalLegs{Job: job, server: server, name: name}
}

func (t *temporalLegs) Open(ctx context.Context) (Leg, error) {
	number, queue, err := t.Job.Open(ctx)
	if err != nil {
		return Leg{}, classified(err)
	}
	t.queue.Store(queue)
	if number == 0 {
		return Leg{}, ErrNotOpen
	}
	return t.Find(ctx, number)
}

func (t *temporalLegs) Find(ctx context.Context, number int) (Leg, error) {
	desc, err := t.server.DescribeWorkflowExecution(ctx, wire.LegID(t.name, number), "")
	if err != nil {
		return Leg{}, classified(err)
	}
	info := desc.GetWorkflowExecutionInfo()
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return Leg{}, ErrGone
	}
	return Leg{Number: number, Run: info.GetExecution().GetRunId()}, nil
}

func (t *temporalLegs) Exchange(ctx context.Context, leg Leg, id string, e wire.Exchange) (wire.Exchanged, error) {
	var answer wire.Exchanged
	err := t.update(ctx, client.UpdateWorkflowOptions{
		WorkflowID: wire.LegID(t.name, leg.Number), RunID: leg.Run, UpdateID: id, UpdateName: wire.UpdateExchange, Args: []any{e},
	}, &answer)
	return answer, err
}

func (t *temporalLegs) Reset(ctx context.Context, leg Leg, id string) (wire.ResetDone, error) {
	var done wire.ResetDone
	err := t.update(ctx, client.UpdateWorkflowOptions{
		WorkflowID: wire.LegID(t.name, leg.Number), RunID: leg.Run, UpdateID: id, UpdateName: wire.UpdateReset,
		Args: []any{wire.Reset{}},
	}, &done)
	return done, err
}

func (t *temporalLegs) Close(ctx context.Context, id string) error {
	err := t.update(ctx, client.UpdateWorkflowOptions{WorkflowID: t.name, UpdateID: id, UpdateName: wire.UpdateClose}, nil)
	if errors.Is(err, ErrGone) || errors.Is(err, ErrCut) || errors.Is(err, ErrBarred) || errors.As(err, new(*RefusedError)) {
		_, ended := t.Open(ctx)
		if _, ok := errors.AsType[*EndedError](ended); ok {
			return ended
		}
		return errors.New("the feed's job could not be asked") // it runs on, or again
	}
	return err
}

// update makes a request that the server knows by its ID, and waits for its outcome.
func (t *temporalLegs) update(ctx context.Context, o client.UpdateWorkflowOptions, result any) error {
	o.WaitForStage = client.WorkflowUpdateStageCompleted
	handle, err := t.server.UpdateWorkflow(ctx, o)
	if err != nil {
		return classified(err)
	}
	if err = handle.Get(ctx, result); err != nil {
		return outcome(err)
	}
	return nil
}

// typeCut is the type with which the server fails an update that a workflow had accepted when it ended.
const typeCut = "AcceptedUpdateCompletedWorkflow"

var refusals = []string{
	wire.RefusedFull, wire.RefusedTooLarge, wire.RefusedMoved, wire.RefusedEarly, wire.RefusedClosed,
	wire.RefusedStopping, wire.RefusedSession, wire.RefusedInvalid, wire.RefusedNotYet,
}

// outcome returns what an update has failed with. Asking again would bring the same.
func outcome(err error) error {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case ok && app.Type() == typeCut:
		return ErrCut
	case !ok || !slices.Contains(refusals, app.Type()):
		return &FatalError{err}
	}
	r := &RefusedError{Type: app.Type(), Message: app.Message()}
	if app.HasDetails() {
		_ = app.Details(&r.Refusal) // without them, the refusal still counts
	}
	return r
}

// classified returns an error of the server's as one of this package, if it leaves no doubt about the request.
func classified(err error) error {
	if _, ok := errors.AsType[*EndedError](err); ok {
		return err
	}
	switch {
	case errors.As(err, new(*serviceerror.NamespaceNotFound)), errors.As(err, new(*serviceerror.QueryFailed)):
		return &FatalError{err}
	case errors.As(err, new(*serviceerror.NotFound)):
		return ErrGone
	case errors.As(err, new(*serviceerror.FailedPrecondition)):
		return ErrBarred
	}
	code := status.Code(err)
	if service, ok := errors.AsType[serviceerror.ServiceError](err); ok {
		code = service.Status().Code()
	}
	switch code {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented:
		return &FatalError{err}
	}
	return err
}

func (t *temporalLegs) State(ctx context.Context, leg Leg) (job.FeedState, error) {
	var state job.FeedState
	err := t.query(ctx, leg, wire.QueryFeed, &state)
	return state, err
}

func (t *temporalLegs) Items(ctx context.Context, leg Leg, items []int64) ([]wire.ItemState, error) {
	var states []wire.ItemState
	err := t.query(ctx, leg, wire.QueryItems, &states, items)
	return states, err
}

func (t *temporalLegs) query(ctx context.Context, leg Leg, name string, result any, args ...any) error {
	answer, err := t.server.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: wire.LegID(t.name, leg.Number), RunID: leg.Run, QueryType: name, Args: args,
		QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	switch {
	case errors.As(err, new(*serviceerror.FailedPrecondition)):
		return err // no worker has been there lately; one may come
	case err != nil:
		return classified(err)
	case answer.QueryRejected != nil:
		return ErrGone
	}
	if err := answer.QueryResult.Get(result); err != nil {
		return &FatalError{err}
	}
	return nil
}

// Served looks at workflow tasks and at activities: a worker whose slots are all busy polls for no activity.
func (t *temporalLegs) Served(ctx context.Context) (bool, error) {
	queue, err := t.poolQueue(ctx)
	if err != nil {
		return false, err
	}
	for _, kind := range []enums.TaskQueueType{enums.TASK_QUEUE_TYPE_WORKFLOW, enums.TASK_QUEUE_TYPE_ACTIVITY} {
		desc, err := t.server.DescribeTaskQueue(ctx, queue, kind)
		if err != nil {
			return false, err
		}
		if len(desc.GetPollers()) > 0 {
			return true, nil
		}
	}
	return false, nil
}

func (t *temporalLegs) poolQueue(ctx context.Context) (string, error) {
	if queue, _ := t.queue.Load().(string); queue != "" {
		return queue, nil
	}
	_, queue, err := t.Job.Open(ctx)
	return queue, err
}

// Slim has a worker's connection not send back what a feed has refused: the server does not need it.
func Slim() grpc.DialOption { return grpc.WithChainUnaryInterceptor(slim) }

// slimFrom is the size from which on a refusal is made smaller, in bytes.
const slimFrom = 1 << 10

// slim leaves the arguments of refused updates out of what is sent.
func slim(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if completed, ok := request.(*workflowservice.RespondWorkflowTaskCompletedRequest); ok {
		for _, m := range completed.Messages {
			if body := m.GetBody(); len(body.GetValue()) > slimFrom && body.MessageIs((*updatepb.Rejection)(nil)) {
				m.Body = slimmed(body)
			}
		}
	}
	return invoke(ctx, method, request, reply, c, options...)
}

func slimmed(body *anypb.Any) *anypb.Any {
	var rejection updatepb.Rejection
	if body.UnmarshalTo(&rejection) != nil {
		return body
	}
	if input := rejection.GetRejectedRequest().GetInput(); input != nil {
		input.Args = nil
	}
	slim, err := anypb.New(&rejection)
	if err != nil {
		return body
	}
	return slim
}

// Leg is one run of one of a feed's legs. A job that is started anew, or resumed, has other runs under the same
// numbers.
type Leg struct {
	Number int
	Run    string
}

// Legs is what the client needs of a feed. It is safe for concurrent use. Every method ends when its context does; an
// error that is none of the types of this file leaves unknown what has become of the request.
type Legs interface {
	// Open returns the leg that takes items. Errors: [ErrNotOpen], *[EndedError].
	Open(ctx context.Context) (Leg, error)
	// Find returns the present run of the leg of that number. Errors: [ErrGone].
	Find(ctx context.Context, number int) (Leg, error)
	// Exchange gives items to a leg and takes results. Repeated with the same id, it returns the outcome of the first
	// time, unless that was an error. Errors: *[RefusedError], [ErrGone], [ErrBarred], [ErrCut], *[FatalError].
	Exchange(ctx context.Context, leg Leg, id string, e wire.Exchange) (wire.Exchanged, error)
	// Reset begins the next session. It can be repeated as Exchange can, and has the same errors.
	Reset(ctx context.Context, leg Leg, id string) (wire.ResetDone, error)
	// Close closes the feed, and can be repeated. Errors: *[EndedError], *[FatalError].
	Close(ctx context.Context, id string) error
	// State returns what the leg knows of the feed. Errors: [ErrGone], *[FatalError].
	State(ctx context.Context, leg Leg) (job.FeedState, error)
	// Items returns what the leg knows of some of its items.
	Items(ctx context.Context, leg Leg, items []int64) ([]wire.ItemState, error)
	// Served reports whether any worker serves the feed's pool.
	Served(ctx context.Context) (bool, error)
	// Ended returns the error for callers of a feed that takes no items, for the reason that a leg has given:
	// [wire.RefusedClosed] or [wire.RefusedStopping]; empty: not known. It is never nil.
	Ended(ctx context.Context, reason string) error
}

// Outcomes of a request that is not carried out, or not to its end.
var (
	// ErrNotOpen reports that no leg of the feed takes items yet.
	ErrNotOpen = errors.New("no leg of the feed is open yet")
	// ErrGone reports that the leg has ended before the request reached it.
	ErrGone = errors.New("the leg has ended")
	// ErrBarred reports that the leg runs, and the server gives it no more requests.
	ErrBarred = errors.New("the leg can take no more requests")
	// ErrCut reports that the leg has carried out the request, and ended before it answered.
	ErrCut = errors.New("the leg has ended before it answered")
	// ErrReleased reports that the client has been released.
	ErrReleased = errors.New("the feed's client has been released")
)

// RefusedError reports that a leg has refused a request. It leaves no trace.
type RefusedError struct {
	Type string // one of the protocol's refusals
	wire.Refusal
	Message string
	Items   int   // in the list that was refused; 0: not known
	Bytes   int64 // of the list
}

func (e *RefusedError) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return fmt.Sprintf("the feed has refused the items: %s", e.Type)
}

// EndedError reports that the feed takes no items: it is unknown, closed, stopped or failed. Err is the error for
// callers.
type EndedError struct {
	Err    error
	Closed bool // it has been closed, and has done all
}

func (e *EndedError) Error() string { return e.Err.Error() }

// Unwrap returns the error for callers.
func (e *EndedError) Unwrap() error { return e.Err }

// FatalError reports a request that cannot succeed however often it is repeated. It has not been carried out.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the server's error.
func (e *FatalError) Unwrap() error { return e.Err }

// UncertainError reports that items have been sent and it is not known whether they have been accepted.
type UncertainError struct{ Err error }

func (e *UncertainError) Error() string {
	return fmt.Sprintf("%v; it is not known whether the items have been accepted", e.Err)
}

// Unwrap returns the reason why that is not known.
func (e *UncertainError) Unwrap() error { return e.Err }

// ErrUnserved reports that no worker serves the feed's pool.
var ErrUnserved = errors.New("no worker serves the feed's pool")

// known reports whether an error says that the request has an outcome, so that it need not be repeated.
func known(err error) bool {
	return err == nil || errors.As(err, new(*RefusedError)) || errors.As(err, new(*FatalError)) || errors.As(err, new(*EndedError)) ||
		errors.Is(err, ErrGone) || errors.Is(err, ErrBarred) || errors.Is(err, ErrCut) || errors.Is(err, ErrNotOpen)
}
