package child

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// refusals are the signals to groups that a Starter sends in vain, as if its children ran as another user.
type refusals struct {
	count    atomic.Int64
	relented atomic.Bool  // they are sent now
	log      bytes.Buffer // of the Starter, to be read once its children have ended
}

func refusing(t *testing.T) (*Starter, *refusals) {
	t.Helper()
	r := &refusals{}
	children, err := NewStarter(slog.New(slog.NewTextHandler(&r.log, nil)))
	require.NoError(t, err)
	t.Cleanup(children.Close)
	children.SignalGroup = func(leader *os.Process, s syscall.Signal) error {
		if r.relented.Load() {
			return signalGroup(leader, s)
		}
		r.count.Add(1)
		return syscall.EPERM
	}
	return children, r
}

// repeated waits until some have been refused.
func (r *refusals) repeated(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return r.count.Load() > 3 }, waitLimit, time.Millisecond)
}

// A kill that is refused is logged once, and repeated until it succeeds.
func TestProcess_KillIsRepeated(t *testing.T) {
	t.Parallel()
	children, refusals := refusing(t)
	p, err := children.Start(&exec.Cmd{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, SysProcAttr: GroupAttributes()}, nil)
	require.NoError(t, err)
	p.Kill()
	require.ErrorIs(t, p.Refused(), syscall.EPERM)
	p.Kill()
	refusals.repeated(t)
	refusals.relented.Store(true)
	require.ErrorContains(t, p.Wait(), "killed")
	require.NoError(t, p.Refused())
	require.Equal(t, 1, strings.Count(refusals.log.String(), "a process cannot be killed"), refusals.log.String())
}

// It is repeated no longer than until the process has ended by itself.
func TestProcess_RefusedToTheEnd(t *testing.T) {
	t.Parallel()
	children, refusals := refusing(t)
	cmd := exec.Command("sh", "-c", "read line; exit 7")
	cmd.SysProcAttr = GroupAttributes()
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	p, err := children.Start(cmd, nil)
	require.NoError(t, err)
	gone := make(chan struct{})
	last, refused := p.EndSoftly(gone, 0)
	require.Equal(t, syscall.SIGKILL, last)
	require.ErrorIs(t, refused, syscall.EPERM)
	refusals.repeated(t)
	_, err = io.WriteString(input, "end\n")
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, p.Wait(), &exit)
	require.Equal(t, 7, exit.ExitCode())
	require.False(t, p.again.Stop(), "nothing is left to be done")
	sent := refusals.count.Load()
	p.Kill()
	require.Equal(t, sent, refusals.count.Load(), "what is gone is left alone")
}

// If the last signal of a soft end was refused it is an error, also if the process has ended meanwhile.
func TestProcess_TermIsRefused(t *testing.T) {
	t.Parallel()
	children, _ := refusing(t)
	cmd := exec.Command("true")
	cmd.SysProcAttr = GroupAttributes()
	p, err := children.Start(cmd, nil)
	require.NoError(t, err)
	gone := make(chan struct{})
	close(gone) // it has ended, and has not been waited for
	last, refused := p.EndSoftly(gone, waitLimit)
	require.Equal(t, syscall.SIGTERM, last)
	require.ErrorIs(t, refused, syscall.EPERM)
	require.NoError(t, p.Wait())
}
