package calls

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// full returns a handler that has room for so many results of a call, and is full at the next one. It
// keeps those if keeps is set.
func full(room int, keeps bool) *fake {
	return &fake{call: func(c *Call) error {
		for i, item := range c.Items {
			if i == room {
				c.Keep = keeps
				return FullFault()
			}
			c.Answer.Line(item.Data)
		}
		return nil
	}}
}

// Items for whose results there was no room have not failed: they are called again, fewer at once.
func TestCaller_Full(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint(keeps), func(t *testing.T) {
			t.Parallel()
			h := full(10, keeps)
			c := newCaller(t, h, 1)
			c.Fit = &Fit{}
			require.NoError(t, c.Run(items(1000)))
			requireOutcomes(t, c, 1000, nil)
			require.Zero(t, c.Retries+c.Isolations)
			require.Less(t, len(h.sizes), 1000/10*3)
			require.LessOrEqual(t, c.CallMax, int64(10))
		})
	}
}

// A full call says nothing about its items: a bad one among them fails alone, all the same.
func TestCaller_FullWithABadItem(t *testing.T) {
	t.Parallel()
	room := full(10, true)
	h := &fake{call: func(c *Call) error {
		for _, item := range c.Items[:min(len(c.Items), 10)] {
			if item.Ordinal == 37 {
				return &Fault{Kind: job.KindCrash}
			}
		}
		return room.call(c)
	}}
	c := newCaller(t, h, 1)
	require.NoError(t, c.Run(items(100)))
	requireOutcomes(t, c, 100, map[int64]bool{37: true})
}

// Outcomes are recorded between calls: what is held is no more than that of one call and some.
func TestCaller_RecordsBetweenCalls(t *testing.T) {
	t.Parallel()
	const each = 1 << 20
	big := []byte(strings.Repeat("x", each))
	h := &fake{call: func(c *Call) error {
		for i := range c.Items {
			if i > 0 && c.Answer.Full() {
				c.Keep = true
				return FullFault()
			}
			c.Answer.Line(big)
		}
		return nil
	}}
	c := newCaller(t, h, 1)
	c.Fit = &Fit{}
	recorded, most := 0, 0
	c.Record = func() error {
		recorded += c.Answer.Count
		most = max(most, c.Answer.size())
		c.Answer.Reset()
		return nil
	}
	require.NoError(t, c.Run(items(200)))
	require.Equal(t, 200, recorded+c.Answer.Count)
	require.LessOrEqual(t, most, AnswerLimit+recordedAt+2*each)
	require.Equal(t, AnswerLimit/2/each, c.Fit.Items(1000)+1, "a line has an end")
	c.Record = func() error { return errAbandoned }
	require.ErrorIs(t, c.Run(items(200)), errAbandoned)
}

// Texts of errors count as well.
func TestAnswer_FullOfErrors(t *testing.T) {
	t.Parallel()
	var a Answer
	for range AnswerLimit / MaxErrorMessage {
		require.False(t, a.Full())
		a.Fail(&Fault{Kind: job.KindError, Err: job.Error{Message: strings.Repeat("x", MaxErrorMessage)}}, 1)
	}
	require.True(t, a.Full())
	a.Reset()
	require.False(t, a.Full())
}

// Larger answers count at once, smaller ones by and by; nothing is known at first.
func TestFit(t *testing.T) {
	t.Parallel()
	var f Fit
	require.Equal(t, 1000, f.Items(1000))
	f.learn(10, 10<<20)
	require.Equal(t, 16, f.Items(1000))
	require.Equal(t, 3, f.Items(3))
	f.learn(1, AnswerLimit)
	require.Equal(t, 1, f.Items(1000))
	f.learn(100, 0)
	require.Equal(t, 1, f.Items(1000))
	for range 100 {
		f.learn(100, 0)
	}
	require.Equal(t, 1000, f.Items(1000))
	require.Equal(t, 7, (*Fit)(nil).Items(7))
}
