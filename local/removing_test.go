package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// A worker of the process may still write parts of the run that is replaced: what is written meanwhile is removed when
// it has ended.
func TestD4_PartsThatAreWrittenWhileTheirRunIsRemoved(t *testing.T) {
	t.Parallel()
	var notes []string
	r := &run{spec: job.Spec{Store: t.TempDir()}, o: Options{Note: func(text string) { notes = append(notes, text) }}}
	parts := filepath.Join(r.spec.Store, "old", "parts")
	require.NoError(t, os.MkdirAll(filepath.Join(r.spec.Store, "new"), 0o700))
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { // as a worker does
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			_ = os.MkdirAll(parts, 0o700)
			_ = os.WriteFile(filepath.Join(parts, string(rune('a'+i%26))), nil, 0o600)
		}
	}()
	for range 500 {
		require.NoError(t, r.removeEarlier("new"))
	}
	close(end)
	<-ended
	require.True(t, filledMeanwhile(fmt.Errorf("removing: %w", errors.Join(os.Remove(r.spec.Store)))), "it is how the race shows")
	require.NoError(t, os.MkdirAll(parts, 0o700))
	r.removeLeft()
	require.Empty(t, notes)
	require.NoDirExists(t, filepath.Join(r.spec.Store, "old"))
	require.DirExists(t, filepath.Join(r.spec.Store, "new"))

	other := &run{spec: r.spec}
	other.removeLeft() // it has replaced nothing
	require.DirExists(t, filepath.Join(r.spec.Store, "new"))
}
