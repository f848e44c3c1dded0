package page

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/job"
)

// A group of failures has a button only where the action of that name is of use.
func TestRedrive_OfGroups(t *testing.T) {
	t.Parallel()
	p := &Page{options: Options{Actions: true, Program: "stint"}}
	redrive := actions[len(actions)-1]
	require.Equal(t, "redrive", redrive.name)
	for _, state := range stateNames {
		for _, loop := range []*job.LoopReport{nil, {}} {
			j := Job{Status: Status{Report: job.Report{State: state, Loop: loop}}, examples: Failures{Groups: []Group{{}}}}
			j.Failed = 1
			var v jobView
			p.groups(&v, j)
			require.Equal(t, redrive.fits(j.Report), v.Failures[0].May, "%s %v", state, loop)
		}
	}
}
