package workflows

import (
	"fmt"

	"github.com/stint-run/stint/activities"
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
}

// salvage commits what an earlier run had accepted. Its parts stay below that run's prefix. If that
// cannot be done, what that run had committed itself is kept.
func (c *coordinator) salvage() error {
	var failed error
	for i, in := range c.in.Salvage {
		if in.Workflow == "" && in.Empty() || failed != nil {
			c.in.Resume = append(c.in.Resume, in.Previous...)
			continue
		}
		var manifests []string
		ctx := execute.IOOptions(c.ctx, c.spec(), fmt.Sprintf("commit %d parts of an earlier run, %d of %d", len(in.Entries), i+1, len(c.in.Salvage)))
		if manifests, failed = c.work.salvage(ctx, in); failed != nil {
			c.in.Resume = append(c.in.Resume, in.Previous...)
			continue
		}
		c.in.Resume = append(c.in.Resume, manifests...)
	}
	if len(c.in.Salvage) > 0 {
		c.in.Salvage = nil
		c.state.Heads, c.state.Report.Manifests = c.in.Resume, c.in.Resume
	}
	return failed
}
