package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// hangs is a filter, and a serve program, that notes its number in the file "pid" and hangs.
const hangs = `
echo '{"type":"ready"}'
while read line; do case $line in
*'"call"'* | a) echo $$ > $BOX/pid; exec sleep 1000 ;;
*'"bye"'*) exit ;;
esac; done`

// hanging serves hangs as a handler of a kind. So many signals to its processes are refused, as if they ran as another
// user.
func (f *fixture) hanging(kind string, refused int64) {
	f.t.Helper()
	program := f.script(hangs)
	h := Exec(program)
	if kind == "serve" {
		h = Serve(program)
	}
	f.options.Slots = 1
	service, err := f.open(h)
	require.NoError(f.t, err)
	var children *child.Starter
	switch s := service.(type) {
	case *host:
		children = s.children
	case *execHandler:
		children = s.children
	}
	var sent atomic.Int64
	children.SignalGroup = func(leader *os.Process, s syscall.Signal) error {
		if sent.Add(1) <= refused {
			return syscall.EPERM
		}
		return syscall.Kill(-leader.Pid, s)
	}
	require.NoError(f.t, service.start(f.t.Context()))
}

// requireEnded requires that the process that hung has ended.
func (f *fixture) requireEnded() {
	f.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(f.read(filepath.Join(f.dir, "pid"))))
	require.NoError(f.t, err)
	require.False(f.t, alive(pid))
}

// T17: a kill that is refused when a call has expired is logged, and repeated until the process has ended.
func TestExpiry_KillIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"exec", "serve"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.limits.Timeout, f.limits.Attempts = 300*time.Millisecond, 1
			f.hanging(kind, 2)
			o := f.flowOf("in.txt", "a\n")
			require.Equal(t, job.KindExpired, o.only(t).Kind)
			f.requireEnded()
			log := f.logged.String()
			require.Equal(t, 1, strings.Count(log, "a process cannot be killed"), log)
			require.Contains(t, log, "operation not permitted")
		})
	}
}

// S2: a process that is ended after a stop's grace is noted with the signal, unless that was refused.
func TestStop_KillIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"exec", "serve"} {
		for refused, signal := range map[int64]string{0: "TERM", 1: "KILL", 3: ""} {
			t.Run(kind+" "+strconv.FormatInt(refused, 10), func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				f.options.KillAfter = 50 * time.Millisecond
				if refused == 0 {
					f.options.KillAfter = maxKillAfter // it ends before
				}
				f.hanging(kind, refused)
				done := f.stopped("a\n", noted(t, filepath.Join(f.dir, "pid")))
				require.NotNil(t, done.Rest, "the item has not failed")
				f.requireEnded()
				if signal == "" {
					require.Empty(t, done.Forced)
					require.Contains(t, f.logged.String(), "a process cannot be killed")
					return
				}
				require.Len(t, done.Forced, 1)
				require.Equal(t, signal, done.Forced[0].Signal)
			})
		}
	}
}
