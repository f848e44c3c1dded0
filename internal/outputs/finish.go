package outputs

import (
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/job"
)

// FinishInput asks for a job's output.
type FinishInput struct {
	Ref       ledger.Ref `json:"ref"`
	Spec      job.Spec   `json:"spec"`
	Manifests []string   `json:"manifests"` // heads of the chain
	Planned   int64      `json:"planned"`   // items that must be accounted for
	// Earlier are the runs that this one takes the place of: see [Publication].
	Earlier []string `json:"earlier,omitempty"`
}

// FinishResult says where the output is.
type FinishResult struct {
	Output job.Output   `json:"output"`
	Books  ledger.Books `json:"books"`
	// Only after a redrive: how many items it has run again, the manifests of the merged state, and the
	// first of the errors that remain.
	Redriven   int64           `json:"redriven,omitempty"`
	Manifests  []string        `json:"manifests,omitempty"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
}
