package workflows

import (
	"fmt"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/workflows/internal/execute"
)

// pending answers the query for what the legs inside the job have accepted and not committed: if Temporal
// ends the job, a resumed one begins with it.
func (c *coordinator) pending() ([]any, error) {
	var all []any
	for _, l := range c.legs {
		all = append(all, l.pending()...)
	}
	return all, nil
}

// salvaged is what an earlier run, or a leg of it, had accepted: itself or, if that may be large, the leg that is to be asked.
type salvaged struct {
	activities.CommitFeedInput
	activities.SalvageFeedInput
	Gone bool `json:"gone,omitempty"` // the leg's history was, when the job was resumed
}

// salvage commits what an earlier run had accepted. Its parts stay below that run's prefix. The report counts what is still to be
// committed, for the next run, in case this one ends before; what the earlier run had committed itself is kept then, too.
func (c *coordinator) salvage() (failed error) {
	for i, in := range c.in.Salvage {
		manifests := in.Previous
		if failed == nil && !(in.Workflow == "" && in.Empty()) {
			ctx := execute.IOOptions(c.ctx, c.spec(), fmt.Sprintf("commit %s of an earlier run, %d of %d", text.Count(len(in.Entries), "part"), i+1, len(c.in.Salvage)))
			manifests, failed = c.work.salvage(ctx, in)
			if failed != nil {
				manifests = in.Previous
			}
		}
		c.in.Resume = append(c.in.Resume, manifests...)
		c.state.Heads, c.state.Report.Manifests = c.in.Resume, c.in.Resume
		if failed == nil {
			c.state.Report.Salvage--
		}
	}
	c.in.Salvage = nil
	return failed
}
