package calls

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func rulesOf(t *testing.T, l wire.CallLimits) *Rules {
	t.Helper()
	r, err := NewRules(l, "score")
	require.NoError(t, err)
	return r
}

// W3: the first rule that selects a failure counts, and before all of them what is final at once.
func TestRules_Of(t *testing.T) {
	t.Parallel()
	r := rulesOf(t, wire.CallLimits{
		Retry: []job.Retry{"type=RateLimit stage=score attempts=10 backoff=5s", "stage=other attempts=7", "kind=error attempts=2"}, Final: "type=Bad,Worse",
	})
	of := func(typ string) *Rule { return r.Of(&Fault{Kind: job.KindError, Err: job.Error{Type: typ}}) }
	require.Equal(t, 10, of("RateLimit").Attempts)
	require.Equal(t, 2, of("Other").Attempts)
	require.Equal(t, 1, of("Worse").Attempts)
	require.Nil(t, r.Of(&Fault{Kind: job.KindCrash}))
	require.Nil(t, r.Of(nil))
	require.Nil(t, (*Rules)(nil).Of(&Fault{}))
	rate := &Fault{Kind: job.KindError, Err: job.Error{Type: "RateLimit"}}
	require.Equal(t, 5*time.Second, r.delay(rate, 1, time.Second, 0))
	require.Equal(t, 10*time.Second, r.delay(rate, 2, time.Second, 0))
	require.Equal(t, time.Minute, r.delay(rate, 9, time.Second, 0))
	require.Equal(t, 4*time.Second, r.delay(rate, 1, time.Second, 0.8))
	require.Equal(t, 2*time.Second, r.delay(&Fault{Kind: job.KindError}, 2, time.Second, 0.8), "a rule without a wait has the job's")

	none, err := NewRules(wire.CallLimits{}, "")
	require.NoError(t, err)
	require.Nil(t, none)
	_, err = NewRules(wire.CallLimits{Retry: []job.Retry{"type=x"}}, "")
	require.ErrorContains(t, err, "no attempts given")
	_, err = NewRules(wire.CallLimits{Final: "x"}, "")
	require.Error(t, err)
}

// W3: a call that fails as a whole comes again as one, after the rule's waits, in which the lane is free, and is narrowed
// down once its tries are used up; the item that is found has no further ones.
func TestRules_WholeCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := failing(func(ordinal int64) error {
			if ordinal == 5 {
				return &job.Error{Type: "RateLimit", Message: "slow"}
			}
			return nil
		})
		c := newCaller(t, h, 2)
		c.Limits.Retry, c.Trials = []job.Retry{"type=RateLimit attempts=3 backoff=5s"}, &Trials{}
		c.Rules = rulesOf(t, c.Limits)
		for try := 1; try <= 2; try++ {
			began := time.Now()
			require.NoError(t, c.Run(items(8)))
			require.Equal(t, began, time.Now(), "nothing waits in the lane")
			require.Equal(t, 8, c.Answer.Holes())
			for i := range int64(8) {
				require.Equal(t, Trial{Tries: try, Due: began.Add(time.Duration(try) * 5 * time.Second)}, c.Trials.Of(i))
			}
			c.Answer.Reset()
			time.Sleep(time.Minute)
		}
		require.NoError(t, c.Run(items(8)))
		require.Equal(t, []int{8, 8, 8, 4, 4, 2, 1, 1, 2}, h.sizes)
		requireOutcomes(t, c, 8, map[int64]bool{5: true})
		require.EqualValues(t, 2, c.Retries)
		require.EqualValues(t, 1, c.Alone)
		require.EqualValues(t, 6, outcomes(c.Answer)[5].Tries)
	})
}

// W3: what is final is not tried again, and costs no more calls than it takes to find its item.
func TestRules_Final(t *testing.T) {
	t.Parallel()
	bad := func(ordinal int64) error {
		switch ordinal {
		case 5:
			return &job.Error{Type: "Bad", Message: "bad"}
		case 12:
			return errors.New("other")
		}
		return nil
	}
	h := failing(bad)
	c := newCaller(t, h, 3)
	c.Limits.Final = "type=Bad"
	c.Trials, c.Rules = &Trials{}, rulesOf(t, c.Limits)
	require.NoError(t, c.Run(items(8)))
	require.Equal(t, []int{8, 4, 4, 2, 1, 1, 2}, h.sizes)
	requireOutcomes(t, c, 8, map[int64]bool{5: true})
	require.Zero(t, c.Retries)

	h.sizes = nil
	c.Answer.Reset()
	require.NoError(t, c.Run(items(8)[5:6]))
	require.Equal(t, []int{1}, h.sizes, "its own first failure is final")
	h.sizes = nil
	require.NoError(t, c.Run(items(13)[12:]))
	require.Equal(t, []int{1, 1, 1}, h.sizes, "others are tried as often as ever")
}
