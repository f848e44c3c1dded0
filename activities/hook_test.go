package activities

import (
	"context"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// What a hook's program has written is in its error once.
func TestHook_ErrorSaysThingsOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, stack, want string }{
		{"exit 1: no room", "begin\nno room\n", "exit 1: no room\nbegin (type: Exit, retryable: true)"},
		{"exit 1: no room", "no room", "exit 1: no room (type: Exit, retryable: true)"},
		{"exit 1", "", "exit 1 (type: Exit, retryable: true)"},
		{"panic", "a\nb", "panic\na\nb (type: Exit, retryable: true)"},
	} {
		f := setup(t)
		f.serve(&callstest.Handler{}, Options{Hooks: map[string]Hook{"h": func(context.Context, wire.HookInput) error {
			return &calls.Fault{Kind: job.KindCrash, Err: job.Error{Type: "Exit", Message: c.message, Stack: c.stack}}
		}}})
		err := f.acts.Hook(t.Context(), wire.HookInput{Name: "h"})
		require.EqualError(t, err, c.want)
	}
}
