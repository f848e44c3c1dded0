package calls

import (
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// observed keeps the events of one caller that an observer gets.
type observed struct {
	Unobserved
	began int
	calls []CallStats
}

func (o *observed) CallBegan(string) { o.began++ }

func (o *observed) CallEnded(s CallStats) { s.Took = 0; o.calls = append(o.calls, s) }

// M1: every call is reported once, however it ends.
func TestObserver_Calls(t *testing.T) {
	t.Parallel()
	bad := &Fault{Kind: job.KindCrash, Err: job.Error{Type: "Exit"}}
	for _, c := range []struct {
		name string
		call func(c *Caller, call *Call) error
		want []CallStats
	}{
		{"ok", func(_ *Caller, call *Call) error { return echo(call) }, []CallStats{{Job: "nightly", Items: 2}}},
		{"an item fails", func(_ *Caller, call *Call) error {
			call.Answer.Line([]byte("0"))
			call.Answer.Fail(bad, 1)
			return nil
		}, []CallStats{{Job: "nightly", Items: 2, Failed: 1}}},
		{"it asks to slow down", func(_ *Caller, call *Call) error {
			call.Answer.Line([]byte("0"))
			call.SlowDown(time.Second)
			return nil
		}, []CallStats{{Job: "nightly", Items: 1, Cut: true, SlowDown: true, Refused: true}}},
		{"as a whole", func(_ *Caller, call *Call) error {
			if len(call.Items) == 2 {
				return bad
			}
			return echo(call)
		}, []CallStats{{Job: "nightly", Fault: "crash"}, {Job: "nightly", Items: 1}, {Job: "nightly", Items: 1}}},
		{"what was answered is kept", func(_ *Caller, call *Call) error {
			call.Keep = true
			call.Answer.Line([]byte("0"))
			if len(call.Items) == 2 {
				return bad
			}
			return nil
		}, []CallStats{{Job: "nightly", Items: 1, Fault: "crash"}}},
		{"too few", func(_ *Caller, call *Call) error {
			if len(call.Items) == 1 {
				return echo(call)
			}
			return nil
		}, []CallStats{{Job: "nightly", Fault: "length"}, {Job: "nightly", Items: 1}, {Job: "nightly", Items: 1}}},
		{"cut after one", func(c *Caller, call *Call) error {
			call.Answer.Line([]byte("0"))
			c.Lane.watch.EndSoon()
			return nil
		}, []CallStats{{Job: "nightly", Items: 1, Cut: true}}},
		{"no slot is left", func(*Caller, *Call) error { return ErrNoSlot }, []CallStats{{Job: "nightly", Cut: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := &observed{}
			caller := newCaller(t, nil, 1)
			caller.Observer, caller.Job = o, "nightly"
			caller.Handler = &fake{call: func(call *Call) error { return c.call(caller, call) }}
			_ = caller.Run(items(2)) // whether it ends early is not at issue
			require.Equal(t, len(o.calls), o.began)
			require.Equal(t, c.want, o.calls[:len(c.want)])
		})
	}
}
