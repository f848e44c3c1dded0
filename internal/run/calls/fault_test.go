package calls

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// B7: an error that is a *job.Error already keeps its type and stack; what wraps it adds to the message only.
func TestFaultOf_KeepsAJobErrorsType(t *testing.T) {
	t.Parallel()
	given := &job.Error{Type: "OutOfRange", Message: "no more", Stack: "here"}
	require.Equal(t, &Fault{Kind: job.KindError, Err: *given}, FaultOf(given))
	wrapped := FaultOf(fmt.Errorf("page 7: %w", given))
	require.Equal(t, job.Error{Type: "OutOfRange", Message: "page 7: OutOfRange: no more", Stack: "here"}, wrapped.Err)
	require.Equal(t, "Error", FaultOf(&job.Error{Message: "untyped"}).Err.Type)
	require.LessOrEqual(t, len(FaultOf(errors.New(strings.Repeat("x", 1<<20))).Err.Message), MaxErrorMessage)
}
