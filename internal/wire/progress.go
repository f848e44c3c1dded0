package wire

import (
	"cmp"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
)

// ErrorOrphaned is the type of the error of an activity whose process is known to be gone.
const ErrorOrphaned = "Orphaned"

// ErrorBudget is the type of a leg's error when the budget of its job is spent: the job stops in order.
const ErrorBudget = "BudgetSpent"

// PermanentErrors returns the error types that retrying cannot help.
func PermanentErrors() []string {
	return []string{job.ErrorInvalid, job.ErrorInput, job.ErrorChanged, job.ErrorOutput, job.ErrorFenced, job.ErrorBooks, job.ErrorCorrupt, ErrorOrphaned, job.ErrorNoHook}
}

// Include adds the progress of a running leg to a report.
func Include(r *job.Report, p job.Progress) {
	r.Outcomes.Add(p.Outcomes)
	r.Waiting += p.Waiting
	r.InFlight += p.InFlight
	r.Outage = r.Outage.Earlier(p.Outage)
	if p.Feed != nil {
		r.Feed = addFeed(*p.Feed, r.Feed)
		r.Planned = max(r.Planned, p.Feed.Accepted)
		r.Discarded += p.Feed.Discarded
	}
	if r.Loop != nil {
		r.Loop.Include(p.Loop...)
	}
	r.Oldest = cmp.Or(r.Oldest, p.Oldest) // of the leg that was started first
	r.LastFailure = cmp.Or(p.LastFailure, r.LastFailure)
}

// addFeed adds the report of another leg; other may be nil.
func addFeed(r job.FeedReport, other *job.FeedReport) *job.FeedReport {
	if other == nil {
		return &r
	}
	r.Session, r.Accepted = max(r.Session, other.Session), max(r.Accepted, other.Accepted)
	r.Backlog, r.BacklogBytes = max(r.Backlog, other.Backlog), max(r.BacklogBytes, other.BacklogBytes)
	r.Capacity, r.CapacityBytes = max(r.Capacity, other.Capacity), max(r.CapacityBytes, other.CapacityBytes)
	r.Waiting += other.Waiting
	r.Unclaimed += other.Unclaimed
	r.Discarded += other.Discarded
	r.QueueMean, r.QueueMax = max(r.QueueMean, other.QueueMean), max(r.QueueMax, other.QueueMax)
	if o := other.OldestSince; !o.IsZero() && (r.OldestSince.IsZero() || o.Before(r.OldestSince)) {
		r.OldestSince = o
	}
	r.Segments = max(r.Segments, other.Segments)
	r.Earlier = max(r.Earlier, other.Earlier)
	r.Lost = max(r.Lost, other.Lost)
	if len(r.Gone) == 0 {
		r.Gone = other.Gone
	}
	if r.StalledSince.IsZero() {
		r.StalledSince = other.StalledSince
	}
	return &r
}

// Per returns the rate of that many items in d, at most [limits.MaxRate]. It is 0 if either is 0 or less.
func Per(items int64, d time.Duration) job.Rate {
	if d <= 0 || items <= 0 {
		return 0
	}
	const most = int64(limits.MaxRate)
	ms := max(1, d.Milliseconds())
	if items/ms >= most/1_000_000 {
		return limits.MaxRate
	}
	if items >= most {
		return job.Rate(items / ms * 1_000_000) // precise enough, and within 64 bits
	}
	return job.Rate(max(1, items*1_000_000/ms))
}

// Answer is how a job's workflow answers the query for its report.
type Answer struct {
	job.Report
	// Flying are the executions in flight, of those that the query has named.
	Flying []string `json:"flying,omitempty"`
	// Heard is what legs have reported last to the job.
	Heard []Heard `json:"heard,omitempty"`
}

// Heard is what a job knows of a leg without asking it.
type Heard struct {
	Leg string `json:"leg"` // its workflow ID
	job.Counted
}
