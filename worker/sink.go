package worker

import (
	"context"
	"time"
)

// Sink takes in what a worker counts (see Options.Sinks). The worker never calls a sink twice at a
// time; of what a sink does wrong neither the worker nor another sink takes any harm.
type Sink interface {
	// Record takes a snapshot, which is the sink's to keep. ctx ends after 5 s. An error or a panic
	// is logged and counted, and the snapshot is not repeated: the next one holds its numbers, too.
	Record(ctx context.Context, s Snapshot) error
}

// SinkFunc is a function as a [Sink].
type SinkFunc func(ctx context.Context, s Snapshot) error

// Record calls the function.
func (f SinkFunc) Record(ctx context.Context, s Snapshot) error { return f(ctx, s) }

// Snapshot is what a worker has counted until now.
type Snapshot struct {
	Worker string    `json:"worker"`
	Pool   string    `json:"pool"`
	Began  time.Time `json:"began"` // when the worker did
	Since  time.Time `json:"since"` // beginning of the window: the snapshot that the sink got before, or Began
	Time   time.Time `json:"time"`
	Last   bool      `json:"last"` // the worker has ended

	JobCounts                      // of all jobs
	Jobs      map[string]JobCounts `json:"jobs"` // by name; those after the first 100 under [OtherJobs]

	Restarts    int64 `json:"restarts"`     // of slots' processes, and calls that were left behind
	Reaps       int64 `json:"reaps"`        // what held an expired timer and was ended for it
	FailedReaps int64 `json:"failed_reaps"` // attempts at that which have failed
}

// JobCounts are the counts of a job, or of all of them.
type JobCounts struct {
	Total  Counts `json:"total"`  // since the worker began
	Window Counts `json:"window"` // since Snapshot.Since
}
