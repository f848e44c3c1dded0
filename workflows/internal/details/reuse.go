package details

import (
	"fmt"
	"strings"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// describeReuse says how many items have the results of an earlier run, and how many those of others.
func describeReuse(b *strings.Builder, r job.Report) {
	if r.ReusedFrom != "" {
		fmt.Fprintf(b, "- **reused** %s of %s · %s new · %s changed · %s had no result\n", text.Count(r.Reused, "result"), text.Thousands(r.Offered),
			text.Thousands(r.New()), text.Thousands(r.Changed), text.Thousands(r.Again))
	}
	if r.Equal > 0 {
		fmt.Fprintf(b, "- **equal** %s with the outcome of an equal one\n", text.Count(r.Equal, "item"))
	}
}
