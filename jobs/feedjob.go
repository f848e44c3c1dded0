package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/enums/v1"
)

// feedJob is a feedclient.Job.
type feedJob struct{ run *Run }

// Open is that of feedclient.Job.
func (j *feedJob) Open(ctx context.Context) (int, string, error) {
	info, err := j.run.info(ctx)
	if _, ok := errors.AsType[*NotFoundError](err); ok {
		return 0, "", &feedclient.EndedError{Err: err}
	}
	if err != nil {
		return 0, "", err
	}
	memo := info.GetMemo()
	listed := j.run.client.listed(info)
	switch {
	case memo.GetFields()[wire.MemoLeg] == nil:
		return 0, "", &feedclient.EndedError{Err: &FeedError{Code: CodeNotFeed, Feed: j.run.name}}
	case info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING && listed.State != job.Stopping && listed.State != job.Stopped:
		return memoValue[int](j.run.client, memo, wire.MemoLeg), listed.Pool, nil
	}
	return 0, listed.Pool, &feedclient.EndedError{Err: j.endedAs(ctx, listed.State), Closed: listed.State == job.Completed}
}

// endedAs returns the error of a feed in that state.
func (j *feedJob) endedAs(ctx context.Context, state job.State) error {
	switch state {
	case job.Completed:
		return &FeedError{Code: CodeClosed, Feed: j.run.name}
	case job.Failed:
		var failed *FailedError
		if _, err := j.run.Wait(ctx); errors.As(err, &failed) {
			return failed
		}
		return &FailedError{Report: job.Report{Job: j.run.name, State: job.Failed}}
	}
	return &FeedError{Code: CodeStopped, Feed: j.run.name, State: state}
}

// endedLimit is how long it may take to find out why a feed has ended.
const endedLimit = 5 * time.Second

// Ended is that of feedclient.Job. It goes by the leg's reason if the job has not ended yet, or cannot be asked.
func (j *feedJob) Ended(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, endedLimit)
	defer cancel()
	_, _, err := j.Open(ctx)
	var ended *feedclient.EndedError
	switch {
	case errors.As(err, &ended):
		return ended.Err
	case reason == wire.RefusedClosed:
		return &FeedError{Code: CodeClosed, Feed: j.run.name}
	}
	return &FeedError{Code: CodeStopped, Feed: j.run.name, State: job.Stopping}
}
