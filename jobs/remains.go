package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stint-run/stint/internal/location"
	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
)

// remains is what the history of a job's run, or of a leg, shows of its manifests.
type remains struct {
	heads   []string
	legs    []string          // that have not returned
	salvage []json.RawMessage // of the input, what has not been committed
}

// remainsOf reads the history of a workflow's latest run, which was started with this input.
func (c *Client) remainsOf(ctx context.Context, id string, in givenInput) (remains, error) {
	r := remains{heads: slices.Concat(in.Resume, in.Previous)}
	if in.State != nil {
		r.heads = slices.Clone(in.State.Heads)
	}
	r.salvage = in.Salvage
	if err := r.skipEmpty(); err != nil {
		return r, err
	}
	commits := map[int64]*history.HistoryEvent{} // that have been scheduled, by the number of the event
	events := c.temporal.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err == nil {
			err = r.take(c, event, commits)
		}
		if err != nil {
			return r, fmt.Errorf("reading what %s had committed: %w", id, err)
		}
	}
	return r, nil
}

// take takes note of one event.
func (r *remains) take(c *Client, event *history.HistoryEvent, commits map[int64]*history.HistoryEvent) error {
	var given struct {
		Previous []string `json:"previous"`
	}
	var done struct {
		Manifest  string   `json:"manifest"`  // of a commit
		Manifests []string `json:"manifests"` // of a leg
	}
	switch event.GetEventType() {
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		if event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == string(wire.ActivityCommit) {
			commits[event.GetEventId()] = event
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		completed := event.GetActivityTaskCompletedEventAttributes()
		commit := commits[completed.GetScheduledEventId()]
		if commit == nil {
			return nil
		}
		if err := c.decodeFirst(commit.GetActivityTaskScheduledEventAttributes().GetInput(), &given); err != nil {
			return err
		}
		if err := c.decodeFirst(completed.GetResult(), &done); err != nil {
			return err
		}
		r.replace(given.Previous, []string{done.Manifest})
		if len(r.salvage) > 0 { // it is committed before anything else, in order
			r.salvage = r.salvage[1:]
			return r.skipEmpty()
		}
	case enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		leg := event.GetStartChildWorkflowExecutionInitiatedEventAttributes()
		if err := c.decodeFirst(leg.GetInput(), &given); err != nil {
			return err
		}
		r.replace(given.Previous, nil) // the leg has them now
		r.legs = append(r.legs, leg.GetWorkflowId())
	case enums.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		leg := event.GetChildWorkflowExecutionCompletedEventAttributes()
		if err := c.decodeFirst(leg.GetResult(), &done); err != nil {
			return err
		}
		r.replace(nil, done.Manifests)
		r.legs = slices.DeleteFunc(r.legs, func(id string) bool { return id == leg.GetWorkflowExecution().GetWorkflowId() })
	}
	return nil
}

// skipEmpty takes what needs no commit from the beginning of salvage: it only names manifests.
func (r *remains) skipEmpty() error {
	for len(r.salvage) > 0 {
		var next struct {
			Previous []string          `json:"previous"`
			Entries  []json.RawMessage `json:"entries"`
			Between  []json.RawMessage `json:"between"`
		}
		if err := json.Unmarshal(r.salvage[0], &next); err != nil {
			return fmt.Errorf("reading what the run was to commit: %w", err)
		}
		if len(next.Entries)+len(next.Between) > 0 {
			return nil
		}
		r.replace(nil, next.Previous)
		r.salvage = r.salvage[1:]
	}
	return nil
}

// replace takes heads out, and adds others.
func (r *remains) replace(old, added []string) {
	r.heads = slices.DeleteFunc(r.heads, func(head string) bool { return slices.Contains(old, head) })
	r.heads = append(r.heads, added...)
}

// StuckError reports that a feed or loop that Temporal has ended cannot say what it had not committed, because its last workflow task
// had failed. It cannot be resumed.
type StuckError struct {
	Name string
	// Parts is where the results are that it had committed: a path or URL that ends in "/". They stay there if the job
	// is started anew. Empty: it kept none, or that is not known.
	Parts string
}

func (e *StuckError) Error() string {
	kept := ""
	if e.Parts != "" {
		kept = "; the results that it had committed stay in " + e.Parts
	}
	return fmt.Sprintf("job %s cannot be resumed: its last workflow task, or that of a part of it, had failed when Temporal ended it, so nobody can read what it had not "+
		"committed%s; start it anew with StartOptions.Fresh", e.Name, kept)
}

// stuck is the StuckError of a run of a job with this store.
func stuck(name, store, run string) *StuckError {
	e := &StuckError{Name: name}
	if store != "" && run != "" {
		if !location.IsPrefix(store) {
			store = location.Append(store, "/")
		}
		e.Parts = location.Append(store, run+"/parts/")
	}
	return e
}
