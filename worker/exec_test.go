package worker

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExec_CommandsThatCannotRun(t *testing.T) {
	t.Parallel()
	f := setup(t)
	plain := filepath.Join(f.dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	for _, c := range []struct {
		argv []string
		says string
	}{
		{nil, "the command is empty"},
		{[]string{""}, "the command is empty"},
		{[]string{"no-such-program-here"}, `"no-such-program-here": there is no such program in $PATH`},
		{[]string{"/no/such/program"}, `"/no/such/program" cannot be run`},
		{[]string{"X=1", "cat"}, `"X=1": there is no such program`},
		{[]string{"~/bin/a"}, `"~/bin/a" cannot be run`},
		{[]string{plain}, "permission denied"},
		{[]string{f.dir}, "cannot be run"},
	} {
		err := Exec(c.argv...).Check(Options{})
		require.ErrorContains(t, err, c.says)
		_, _, err = Exec(c.argv...).open(dependencies{options: Options{}.withDefaults()})
		require.Error(t, err)
	}
}

func TestExec_HowAProcessEnds(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{"Exit": job.KindExit, "Signal": job.KindCrash}
	for _, c := range []struct{ name, body, of, message, stack string }{
		{"exit status", `echo first >&2; echo last >&2; exit 3`, "Exit", "exit 3: last", "first\nlast\n"},
		{"exit status without a word", `exit 1`, "Exit", "exit 1", ""},
		{"a signal", `kill -TERM $$`, "Signal", "signal: terminated", ""},
		{"a fault", `echo oh >&2; kill -SEGV $$`, "Signal", "signal: segmentation fault: oh", "oh\n"},
		{"empty lines at the end", `printf 'why\n\n \n' >&2; exit 1`, "Exit", "exit 1: why", "why\n\n \n"},
		{"bytes that are not UTF-8", `printf '\377x' >&2; exit 1`, "Exit", "exit 1: \uFFFDx", "\uFFFDx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			o := f.run(Exec(f.script(c.body)), "in.txt", "a\n")
			require.Len(t, o.failures, 1)
			require.Equal(t, kinds[c.of], o.failures[0].Kind, "14.15: only a crash is called one")
			require.Equal(t, c.of, o.failures[0].Error.Type)
			require.True(t, strings.HasPrefix(o.failures[0].Error.Message, c.message), o.failures[0].Error.Message)
			require.Equal(t, c.stack, o.failures[0].Error.Stack)
			if c.of == "Signal" {
				require.EqualValues(t, 3, o.totals.Crashes, "each of the attempts")
			} else {
				require.Zero(t, o.totals.Crashes)
			}
		})
	}
}

func TestExec_EndOfStandardErrorIsKept(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.run(Exec(f.script(`seq 100000 >&2; exit 1`)), "in.txt", "a\n")
	e := o.failures[0].Error
	require.Equal(t, "exit 1: 100000", e.Message)
	require.LessOrEqual(t, len(e.Stack), child.StderrKept)
	require.True(t, strings.HasSuffix(e.Stack, "99999\n100000\n"))
}

func TestExec_OneProcessACall(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.CallItems, f.batch = 10, 25
	o := f.run(Exec(f.script(`echo $$ >> $BOX/pids; exec cat`)), "in.txt", strings.Repeat("a\n", 25))
	require.Equal(t, strings.Repeat("a\n", 25), o.output)
	require.Equal(t, 3, strings.Count(f.read(filepath.Join(f.dir, "pids")), "\n"))
	require.EqualValues(t, 3, o.totals.Calls)
}

// TestExec_CallsAimAtATime (B1): once a filter's speed is known, calls are cut so that each takes some
// seconds, and never more than so many items.
func TestExec_CallsAimAtATime(t *testing.T) {
	t.Parallel()
	h := &paced{pace: execPace(Options{})}
	require.Equal(t, firstCall, h.CallSize().Items)
	h.pace.Learn(1000, time.Second)
	require.Equal(t, 5000, h.CallSize().Items)
	h.pace.Learn(5000, 15*time.Second) // it has become slower: the mean counts
	require.Equal(t, 2500, h.CallSize().Items)
	h.pace.Learn(1, time.Hour)
	require.Equal(t, 1, h.CallSize().Items)
	quick := &paced{pace: execPace(Options{})}
	quick.pace.Learn(1_000_000, time.Nanosecond)
	require.Equal(t, execItems, quick.CallSize().Items)
	fixed := &paced{pace: execPace(Options{}), size: calls.CallSize{Items: 7}}
	fixed.pace.Learn(7, time.Hour)
	require.Equal(t, 7, fixed.CallSize().Items)
}

func TestExec_EnvironmentIsScrubbed(t *testing.T) {
	t.Setenv("STINT_TEST_SECRET", "secret")
	t.Setenv("STINT_TEST_PASSED", "passed")
	t.Setenv("LC_TEST", "lc")
	f := setup(t)
	f.options.Env = []string{"GIVEN=a=b", "STINT_TEST_PASSED", "STINT_TEST_UNSET", "HOME=/elsewhere"}
	env := f.options.childEnv()
	require.Contains(t, env, "GIVEN=a=b")
	require.Contains(t, env, "STINT_TEST_PASSED=passed")
	require.Contains(t, env, "LC_TEST=lc")
	require.Equal(t, "HOME=/elsewhere", env[len(env)-1], "what is given comes last, and counts")
	for _, v := range env {
		require.NotContains(t, v, "SECRET")
		require.NotContains(t, v, "UNSET")
	}
	o := f.run(Exec("sh", "-c", `read x; echo "$HOME $GIVEN $STINT_TEST_SECRET."`), "in.txt", "a\n")
	require.Equal(t, "/elsewhere a=b .\n", o.output)
}

func TestExec_DirectoryOfItsOwn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.script(`read x; pwd`)
	f.options.Dir = f.dir
	require.Equal(t, f.dir+"\n", f.run(Exec("./script"), "in.txt", "a\n").output)
}

// TestExec_GroupIsKilledWithTheCall (W8): what a filter leaves behind does not outlive its call.
func TestExec_GroupIsKilledWithTheCall(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.run(Exec(f.script(`sleep 1000 & echo $! > $BOX/pid; exec cat`)), "in.txt", "a\n")
	require.Equal(t, "a\n", o.output)
	pid, err := strconv.Atoi(strings.TrimSpace(f.read(filepath.Join(f.dir, "pid"))))
	require.NoError(t, err)
	for deadline := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "process %d lives", pid)
	}
}

// alive reports whether a process runs; a dead one that nobody has reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestChildren_ManyAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	children, err := child.NewStarter(slog.New(slog.DiscardHandler))
	require.NoError(f.t, err)
	defer children.Close()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 10 {
				c, err := children.Start(&exec.Cmd{Path: "/bin/true", SysProcAttr: child.GroupAttributes()}, nil)
				if assert.NoError(t, err) {
					assert.NoError(t, c.Wait())
					c.Kill() // what is gone is left alone
				}
			}
		})
	}
	calls.Wait()
}

func TestPace_Settles(t *testing.T) {
	t.Parallel()
	p := execPace(Options{})
	require.Equal(t, execItems, p.Settled(0.001, 0))
	require.Equal(t, 4999, p.Settled(0.001, 0.001))
	require.Equal(t, execItems, p.Settled(0.001, 1e-7))
	require.Equal(t, 1, p.Settled(0, 100))
	require.Equal(t, 1, p.Settled(100, 1))
}
