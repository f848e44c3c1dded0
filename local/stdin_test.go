package local_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/local"
	"github.com/stretchr/testify/require"
)

// A process is killed after it has copied 32 MiB of its standard input; the next one gets another.
func TestRun_KilledHalfWayThroughStdin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec, options := b.spec(), b.options()
	spec.Input, spec.Format, spec.BatchItems = []string{"-"}, "text", 10_000
	options.Note = func(string) {}
	r, w := io.Pipe()
	options.Worker.Stdin = r
	abort := make(chan struct{})
	options.Abort = abort
	var group sync.WaitGroup
	group.Go(func() {
		line := strings.Repeat("x", 1<<10-1) + "\n"
		for range 33 << 10 { // and it never ends
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	})
	group.Go(func() {
		defer close(abort)
		require.Eventually(t, func() bool {
			chunks, err := filepath.Glob(filepath.Join(options.State, "*", "*", "*", "*", "00000001"))
			return err == nil && len(chunks) > 0
		}, time.Minute, 10*time.Millisecond)
	})
	_, err := local.Run(t.Context(), spec, upper, options)
	require.Error(t, err)
	require.NoError(t, r.Close())
	group.Wait()

	var want bytes.Buffer
	var input bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&input, "new %d\n", i)
		fmt.Fprintf(&want, "\"NEW %d\"\n", i)
	}
	options.Worker.Stdin, options.Abort = &input, nil
	report, err := local.Run(t.Context(), spec, upper, options)
	require.NoError(t, err)
	require.EqualValues(t, 1000, report.OK)
	b.requireOutput(want.String())
}
