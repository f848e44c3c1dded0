package starter_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	sdkclient "go.temporal.io/sdk/client"
)

// inFlight is how many batches of the job are dispatched and have not ended, in all its legs.
func inFlight(t *testing.T, c sdkclient.Client, name string) int {
	t.Helper()
	desc, err := c.DescribeWorkflowExecution(context.WithoutCancel(t.Context()), name, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok { // a leg that is about to start
		return 0
	}
	require.NoError(t, err)
	n := 0
	for _, a := range desc.GetPendingActivities() {
		if a.GetActivityType().GetName() == "Process" {
			n++
		}
	}
	for _, leg := range desc.GetPendingChildren() {
		n += inFlight(t, c, leg.GetWorkflowId())
	}
	return n
}

// The automatic window grows by itself when a second worker process comes to the pool, and both are kept busy.
func TestCluster_SecondWorkerWidensTheWindow(t *testing.T) {
	t.Parallel()
	const slots = 40
	b := setup(t)
	c := b.dial(b.server().Address())
	b.write("in.txt", numbers(20_000))
	slow := b.script("slow", "while [ -e "+b.path("hold")+" ]; do sleep 3; done; sleep 2; exec cat")
	serve := func() {
		w := b.spawn("worker", "--pool", "p", "--allow", b.dir, "--slots", itoa(slots), "--exec", slow)
		w.says("serving pool p")
	}
	window := func() int {
		var r job.Report
		b.reads(&r, "status", "going", "--json")
		return r.Window
	}
	serve()
	b.stint("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "1").exits(starter.ExitOK)
	eventually(t, "the window of one worker", func() bool { return inFlight(t, c, "going") == 2*slots })
	require.Equal(t, 2*slots, window())
	serve()
	eventually(t, "the window of two workers", func() bool { return inFlight(t, c, "going") == 4*slots })
	require.Equal(t, 4*slots, window())
	b.write("hold", "") // from now on no slot is between two calls
	run := jobs.NewClient(c, nil).Get("going")
	eventually(t, "both workers to be busy", func() bool {
		running, err := run.Running(t.Context())
		require.NoError(t, err)
		of := map[string]int{}
		for _, batch := range running {
			of[batch.Worker]++
		}
		return len(running) >= 2*slots-4 && len(of) == 2
	})
	require.NoError(t, os.Remove(b.path("hold")))
	b.stint("stop", "going", "--grace", "60s", "--wait").exits(starter.ExitOK)
}
