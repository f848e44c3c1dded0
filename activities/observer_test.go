package activities

import (
	"errors"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// observed keeps what an observer is told of one caller.
type observed struct {
	unobserved
	began int
	calls []CallStats
}

func (o *observed) CallBegan(string) { o.began++ }

func (o *observed) CallEnded(s CallStats) { s.Took = 0; o.calls = append(o.calls, s) }

// M1: every call is told of once, whatever becomes of it.
func TestObserver_Calls(t *testing.T) {
	t.Parallel()
	bad := &Fault{Kind: job.KindCrash, Err: job.Error{Type: "Exit"}}
	for _, c := range []struct {
		name string
		call func(c *caller, call *Call) error
		want []CallStats
	}{
		{"ok", func(_ *caller, call *Call) error { return echo(call) }, []CallStats{{Job: "nightly", Items: 2}}},
		{"an item fails", func(_ *caller, call *Call) error {
			call.Answer.Line([]byte("0"))
			call.Answer.Fail(bad, 1)
			return nil
		}, []CallStats{{Job: "nightly", Items: 2}}},
		{"as a whole", func(_ *caller, call *Call) error {
			if len(call.Items) == 2 {
				return bad
			}
			return echo(call)
		}, []CallStats{{Job: "nightly", Fault: "crash"}, {Job: "nightly", Items: 1}, {Job: "nightly", Items: 1}}},
		{"what was answered is kept", func(_ *caller, call *Call) error {
			call.Keep = true
			call.Answer.Line([]byte("0"))
			if len(call.Items) == 2 {
				return bad
			}
			return nil
		}, []CallStats{{Job: "nightly", Items: 1, Fault: "crash"}}},
		{"too few", func(_ *caller, call *Call) error {
			if len(call.Items) == 1 {
				return echo(call)
			}
			return nil
		}, []CallStats{{Job: "nightly", Fault: "length"}, {Job: "nightly", Items: 1}, {Job: "nightly", Items: 1}}},
		{"cut after one", func(c *caller, call *Call) error {
			call.Answer.Line([]byte("0"))
			c.minder.end(nil)
			return nil
		}, []CallStats{{Job: "nightly", Items: 1, Cut: true}}},
		{"no slot is left", func(*caller, *Call) error { return ErrNoSlot }, []CallStats{{Job: "nightly", Cut: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := &observed{}
			caller := newCaller(t, nil, 1)
			caller.observer, caller.job = o, "nightly"
			caller.handler = &fake{call: func(call *Call) error { return c.call(caller, call) }}
			_ = caller.run(items(2)) // whether it ends early is not at issue
			require.Equal(t, len(o.calls), o.began)
			require.Equal(t, c.want, o.calls[:len(c.want)])
		})
	}
}

// recorded keeps what an observer is told of executions.
type recorded struct {
	unobserved
	sum   RecordStats
	began int
	ended []error
}

func (r *recorded) BatchBegan(string)              { r.began++ }
func (r *recorded) BatchEnded(_ string, err error) { r.ended = append(r.ended, err) }
func (r *recorded) Recorded(s RecordStats) {
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
	f.serve(&fake{traits: Traits{Form: CheckedJSON}, size: CallSize{Items: 2}, call: func(c *Call) error {
		for _, item := range c.Items {
			if item.Ordinal == 3 {
				return errors.New("alas")
			}
		}
		return echo(c)
	}}, Options{Observer: r})
	batch := f.plan()[0]
	n := f.process(batch).Totals
	require.EqualValues(t, 2, n.Failed)
	require.Positive(t, n.Retries)
	require.Positive(t, n.Isolations)
	require.Equal(t, RecordStats{Job: f.ref.Job, OK: n.OK, Failed: n.Failed, Retries: n.Retries, Isolations: n.Isolations}, r.sum)
	require.Equal(t, []error{nil}, r.ended)

	f.write("in.jsonl", "1\n")
	_, err := f.acts.Process(t.Context(), f.input(batch))
	require.Error(t, err)
	require.Equal(t, 2, r.began)
	require.Equal(t, err, r.ended[1])
}
