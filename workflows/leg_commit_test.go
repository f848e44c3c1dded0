package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestFail_Commit(t *testing.T) {
	t.Parallel()
	for _, items := range []int64{100, 400, 5000} {
		t.Run(fmt.Sprint(items), func(t *testing.T) {
			t.Parallel()
			w := setup(t, items)
			w.pageLimit = 20
			w.commit = func(in wire.CommitInput) error {
				if in.Leg == int(min(items/200, 3)) {
					return permanentError(job.ErrorOutput)
				}
				return nil
			}
			_, err := w.run()
			report := w.failedReport(err, job.ErrorOutput)
			w.requireAccepted(report)
			require.Empty(t, w.finishes)

			w.resume, w.commit = report.Manifests, nil
			require.Equal(t, items, w.mustRun().OK, "it can be resumed")
		})
	}
}

// A commit that fails while the job stops does not lead to publishing.
func TestFail_CommitWhileStopping(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.took = time.Second
	w.process = func(x *execution) { x.onCancel = func() {} }
	w.commit = func(wire.CommitInput) error { return permanentError(job.ErrorOutput) }
	w.at(500*time.Millisecond, func() { w.stop(job.Stop{}) })
	report := w.stopped()
	require.Zero(t, report.OK, "what could not be committed does not count")
}

func TestLeg_CommitFails(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.commit = func(wire.CommitInput) error { return permanentError(job.ErrorOutput) }
	in := w.legInput(5)
	in.Previous = []string{"before"}
	in.Sofar.Totals.OK = 1000
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, job.ErrorOutput, result.Error.Type)
	require.Equal(t, []string{"before"}, result.Manifests, "what could not be committed does not count")
	require.EqualValues(t, 1000, result.Totals.OK)
	require.EqualValues(t, 50, result.Left)
}

func TestLeg_CommitIsRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.commit = func(wire.CommitInput) error {
		switch len(w.commits) {
		case 1:
			return transient("network")
		case 2:
			return orphaned()
		}
		return nil
	}
	result, err := w.runLeg(w.legInput(5))
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.Equal(t, []string{"m-3"}, result.Manifests)
	require.EqualValues(t, 50, result.Totals.OK)
}
