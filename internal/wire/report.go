package wire

import "github.com/stint-run/stint/job"

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
