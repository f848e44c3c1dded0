package worker

import (
	"context"
	"time"
)

// Sink receives a worker's counts (see Options.Sinks). The worker makes one call of a sink at a time.
// A sink that fails, hangs or panics harms neither the worker nor another sink.
type Sink interface {
	// Record takes a snapshot, which the sink may keep. ctx ends after 5 s. An error or a panic is
	// logged and counted, and the snapshot is not repeated: the next one includes its numbers.
	Record(ctx context.Context, s Snapshot) error
}

// SinkFunc is a function as a [Sink].
type SinkFunc func(ctx context.Context, s Snapshot) error

// Record calls the function.
func (f SinkFunc) Record(ctx context.Context, s Snapshot) error { return f(ctx, s) }

// Snapshot holds what a worker has counted until now.
type Snapshot struct {
	Worker string    `json:"worker"`
	Pool   string    `json:"pool"`
	Began  time.Time `json:"began"` // when the worker began
	Since  time.Time `json:"since"` // beginning of the window: the sink's previous snapshot, or Began
	Time   time.Time `json:"time"`
	Last   bool      `json:"last"` // the worker has ended

	JobCounts                      // of all jobs
	Jobs      map[string]JobCounts `json:"jobs"` // by name; those after the first 100 under [OtherJobs]

	Restarts    int64 `json:"restarts"`     // of slots' processes, and calls that were left behind
	Reaps       int64 `json:"reaps"`        // processes and calls that were ended because a timer of theirs had expired
	FailedReaps int64 `json:"failed_reaps"` // failed attempts to end one
}

// JobCounts are the counts of a job, or of all of them.
type JobCounts struct {
	Total  Counts `json:"total"`  // since the worker began
	Window Counts `json:"window"` // since Snapshot.Since
}
