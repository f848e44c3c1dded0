//go:build unix

package starter

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// A job that needs a closed standard file is refused before anything runs.
func TestD31_JobsThatNeedAClosedFile(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	p := &Program{Stdin: closedFile{"input"}, Stdout: &printed, outputClosed: true}
	var refused *codeError
	for _, spec := range []job.Spec{{Files: &job.Files{Input: []string{"a"}}}, {Files: &job.Files{Input: []string{"a", "-"}}, Output: "out"}} {
		require.ErrorAs(t, p.checkStandard(spec), &refused)
		require.Equal(t, ExitUsage, refused.code)
	}
	require.NoError(t, p.checkStandard(job.Spec{Files: &job.Files{Input: []string{"a"}}, Output: "out"}))
	_, err := p.results().Write(nil)
	require.True(t, errors.Is(err, fs.ErrClosed), "a job that is resumed does not lose them either")
}

// TestD31_Main is a whole program.
func TestD31_Main(t *testing.T) {
	if os.Getenv("STINT_TEST_MAIN") == "" {
		t.Skip("it is for TestD31_OtherCommandsWriteToAClosedOutput")
	}
	os.Args = []string{"stint", "version"}
	Main(worker.Handler{})
}

// What is no result is written to an output that seems to be closed: Python's subprocess.DEVNULL is the same.
func TestD31_OtherCommandsWriteToAClosedOutput(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	cmd := exec.Command(self, "-test.run=^TestD31_Main$")
	cmd.Env = append(os.Environ(), "STINT_TEST_MAIN=1")
	cmd.Stdout = null
	require.NoError(t, cmd.Run())
}
