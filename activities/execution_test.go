package activities

import (
	"errors"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stretchr/testify/require"
)

// recorded keeps the executions that an observer was notified of.
type recorded struct {
	calls.Unobserved
	sum   calls.RecordStats
	began int
	ended []error
}

func (r *recorded) BatchBegan(string)              { r.began++ }
func (r *recorded) BatchEnded(_ string, err error) { r.ended = append(r.ended, err) }
func (r *recorded) Recorded(s calls.RecordStats) {
	r.sum.Job = s.Job
	r.sum.OK += s.OK
	r.sum.Failed += s.Failed
	r.sum.Retries += s.Retries
	r.sum.Isolations += s.Isolations
}

// M1: what is recorded adds up to the batch's totals, items that no call has seen included.
func TestObserver_Records(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", "1\nno json\n3\n4\n5\n")
	f.spec.BatchItems = 1000
	r := &recorded{}
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.CheckedJSON}, Size: calls.CallSize{Items: 2}, Do: func(c *calls.Call) error {
		for _, item := range c.Items {
			if item.Ordinal == 3 {
				return errors.New("alas")
			}
		}
		return callstest.Echo(c)
	}}, Options{Observer: r})
	batch := f.plan()[0]
	n := f.process(batch).Totals
	require.EqualValues(t, 2, n.Failed)
	require.Positive(t, n.Retries)
	require.Positive(t, n.Isolations)
	require.Equal(t, calls.RecordStats{Job: f.ref.Job, OK: n.OK, Failed: n.Failed, Retries: n.Retries, Isolations: n.Isolations}, r.sum)
	require.Equal(t, []error{nil}, r.ended)

	f.write("in.jsonl", "1\n")
	_, err := f.acts.Process(t.Context(), f.input(batch))
	require.Error(t, err)
	require.Equal(t, 2, r.began)
	require.Equal(t, err, r.ended[1])
}
