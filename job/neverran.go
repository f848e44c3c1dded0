package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
)

// A workflow that Temporal has ended before its first workflow task answers no query, for good. It has
// done nothing, so what it was given is all there is: its input.

// neverRan reports whether a query has failed because the workflow never had a workflow task.
func neverRan(err error) bool {
	var notReady *serviceerror.WorkflowNotReady
	return errors.As(err, &notReady)
}

// givenInput is what a job's run, or a leg, was started with, as far as a resumed job must keep it.
type givenInput struct {
	// Of a job.
	Spec    Spec              `json:"spec"`
	Resume  []string          `json:"resume"`
	Salvage []json.RawMessage `json:"salvage"`
	State   *struct {         // of the runs before, if the job has continued as new
		Heads  []string `json:"heads"`
		Report Report   `json:"report"`
	} `json:"state"`
	// Of a leg.
	Ref      json.RawMessage `json:"ref"`
	Number   int             `json:"number"`
	Previous []string        `json:"previous"`
}

// pending is what the workflow would answer to the query for what is not committed: the manifests that a leg
// was to name, and what the job was to commit first.
func (in givenInput) pending() []json.RawMessage {
	if len(in.Previous) == 0 {
		return in.Salvage
	}
	kept, err := json.Marshal(map[string]any{"ref": in.Ref, "leg": in.Number, "previous": in.Previous})
	if err != nil {
		return nil // it was read as JSON
	}
	return []json.RawMessage{kept}
}

// given reads the input of a workflow's latest run from the first event of its history.
func (c *Client) given(ctx context.Context, id string) (givenInput, error) {
	var in givenInput
	events := c.temporal.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	first, err := events.Next()
	if err == nil {
		err = c.decodeFirst(first.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in)
	}
	if err != nil {
		return in, fmt.Errorf("reading how %s was started: %w", id, err)
	}
	return in, nil
}

// given is the report of a job that never ran: that of the runs before, if there were any.
func (r *Run) given(ctx context.Context) (Report, error) {
	in, err := r.client.given(ctx, r.name)
	if err != nil {
		return Report{}, err
	}
	if in.State != nil {
		report := in.State.Report
		report.Manifests = in.State.Heads
		return report, nil
	}
	return Report{Job: r.name, Pool: in.Spec.Pool, Store: in.Spec.Store, Manifests: in.Resume, Settings: in.Spec.Settings()}, nil
}
