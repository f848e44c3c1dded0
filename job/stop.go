package job

import "time"

// Stop asks for a coordinated stop. Every field is optional.
type Stop struct {
	// Reason is told to people and kept in the report.
	Reason string `json:"reason,omitempty"`
	// Error makes the job end as failed with this error.
	Error *Error `json:"error,omitempty"`
	// Grace overrides the job's own: a Go duration such as "30s"; "0" means at once.
	Grace string `json:"grace,omitempty"`
	// IgnoreStragglers leaves work that outlives the grace period out of the job's outcome.
	IgnoreStragglers bool `json:"ignore_stragglers,omitempty"`
}

// StopNotice is what a running batch finds in its workflow's memo once a stop has reached it.
type StopNotice struct {
	Deadline time.Time `json:"deadline"` // when the grace period ends
	Reason   string    `json:"reason,omitempty"`
}

// Straggler is a batch that was still running when a stop's grace period had ended.
type Straggler struct {
	Batch  string    `json:"batch"`
	Leg    int       `json:"leg"`
	Worker string    `json:"worker,omitempty"`
	Since  time.Time `json:"since"`
}
