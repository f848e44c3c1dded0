package redrive

import (
	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/job"
)

// PlanInput asks for one page of batches of a redrive.
type PlanInput struct {
	inputs.PlanInput
	Redrive job.Redrive `json:"redrive"`
}
