package stall

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter()
		ctx := With(t.Context(), m)
		require.Same(t, m, Of(context.WithoutCancel(ctx)))
		reading := New(ctx, "reading", "file")
		once := Begin(ctx, "looking up", "other")
		time.Sleep(time.Minute)
		require.Nil(t, m.Stuck(time.Minute))
		once.Close()
		reading.Begin()
		time.Sleep(time.Minute + time.Second)
		require.EqualError(t, m.Stuck(time.Minute), "reading file: nothing has happened for 1m1s")
		require.Nil(t, m.Stuck(2*time.Minute))

		outer := NewMeter()
		included := Include(With(t.Context(), outer), m)
		require.NotNil(t, outer.Stuck(time.Minute))
		reading.End()
		require.Nil(t, outer.Stuck(time.Minute))
		reading.Begin()
		time.Sleep(time.Hour)
		included.Close()
		require.Nil(t, outer.Stuck(time.Minute))
		require.NoError(t, GivenUp(ctx))
		require.NoError(t, outer.GiveUp(time.Minute))
		require.Error(t, m.GiveUp(time.Minute))
		require.ErrorContains(t, GivenUp(context.WithoutCancel(ctx)), "reading file")
		reading.Close()
		require.Nil(t, m.Stuck(time.Minute))
	})
}

// Work that nobody measures has operations, too.
func TestNobodyMeasures(t *testing.T) {
	t.Parallel()
	op := Begin(t.Context(), "reading", "file")
	op.Begin()
	op.End()
	op.Close()
	Include(t.Context(), NewMeter()).Close()
	require.NoError(t, GivenUp(t.Context()))
}
