package trap

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	t.Parallel()
	ran := false
	require.NoError(t, Run("x", func() { ran = true }))
	require.True(t, ran)
	err := Run("reading frames", func() { func(m map[string]int) { m["a"] = 1 }(nil) })
	var defect *DefectError
	require.ErrorAs(t, err, &defect)
	require.ErrorContains(t, err, "a defect of stint, please report it: reading frames: panic: assignment to entry in nil map")
	require.Contains(t, string(defect.Stack), "trap_test.go")
}

func TestGo(t *testing.T) {
	t.Parallel()
	fault := errors.New("fault")
	require.NoError(t, <-Go("x", func() error { return nil }))
	require.Equal(t, fault, <-Go("x", func() error { return fault }))
	var defect *DefectError
	require.ErrorAs(t, <-Go("x", func() error { panic("no") }), &defect)
}

func TestWatched(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 2)
	Watched("x", func(err error) { failed <- err }, func() { failed <- nil })
	require.NoError(t, <-failed)
	Watched("x", func(err error) { failed <- err }, func() { panic("no") })
	var defect *DefectError
	require.ErrorAs(t, <-failed, &defect)
}

func TestAfterAndOnDone(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, start := range map[string]func(failed func(error), fn func()){
		"after":   func(failed func(error), fn func()) { After(0, "x", failed, fn) },
		"on done": func(failed func(error), fn func()) { OnDone(ended, "x", failed, fn) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := make(chan error, 2)
			start(func(err error) { failed <- err }, func() { failed <- nil })
			require.NoError(t, <-failed)
			start(func(err error) { failed <- err }, func() { panic("no") })
			var defect *DefectError
			require.ErrorAs(t, <-failed, &defect)
		})
	}
	stop := OnDone(t.Context(), "x", nil, func() { panic("it was stopped") })
	require.True(t, stop())
	require.True(t, After(time.Hour, "x", nil, func() {}).Stop())
	watch("x", nil, func() { panic("logged") })
}
