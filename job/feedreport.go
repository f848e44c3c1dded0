package job

import "time"

// FeedReport is the state of a feed.
type FeedReport struct {
	Session       int64 `json:"session"`  // that is open
	Accepted      int64 `json:"accepted"` // items, in all sessions
	Backlog       int   `json:"backlog"`  // items accepted and unfinished
	BacklogBytes  int64 `json:"backlog_bytes"`
	Capacity      int   `json:"capacity"` // most items accepted and unfinished
	CapacityBytes int64 `json:"capacity_bytes"`
	Waiting       int   `json:"waiting"`   // of the backlog, items that are in no batch yet
	Unclaimed     int   `json:"unclaimed"` // results that clients have not taken in time
	Discarded     int64 `json:"discarded"` // items that resets have removed, in legs that run
	// OldestSince is when the oldest unfinished item of the legs that run was accepted; zero: there is none.
	OldestSince time.Time `json:"oldest_since,omitzero"`
	// QueueMean and QueueMax are how long items of the legs that run have waited for their batch, in nanoseconds.
	QueueMean time.Duration `json:"queue_mean"`
	QueueMax  time.Duration `json:"queue_max"`
	Segments  int           `json:"segments"` // legs that have taken items
}

// Idle reports that everything accepted is finished.
func (r FeedReport) Idle() bool { return r.Backlog == 0 }

// Full reports that not one more item would be accepted.
func (r FeedReport) Full() bool { return r.Backlog >= r.Capacity || r.BacklogBytes >= r.CapacityBytes }

// with adds the report of another leg; other may be nil.
func (r FeedReport) with(other *FeedReport) *FeedReport {
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
	return &r
}
