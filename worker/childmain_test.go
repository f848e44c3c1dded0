package worker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/guard"
	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// exiting is a Go handler that ends its process over the item "exit".
var exiting = Each(func(_ context.Context, do string) (int, error) {
	if do == "exit" {
		os.Exit(3)
	}
	return os.Getpid(), nil
})

// asRole, in the environment, makes the test binary another program: one of the roles. It has
// not called ChildMain.
const asRole = "STINT_TEST_ROLE"

var roles = map[string]func(){
	"makes workers": func() {
		fmt.Fprintln(os.Stderr, "main began")
		fmt.Fprintln(os.Stderr, "plain:", newError(exiting, Options{}))
		fmt.Fprintln(os.Stderr, "processes:", newError(exiting, Options{Processes: true}))
		fmt.Fprintln(os.Stderr, "main went on")
	},
	"makes a worker in a slot": func() {
		ChildMain()
		fmt.Println("not for the worker")
		fmt.Fprintln(os.Stderr, "plain:", newError(exiting, Options{}))
	},
	"makes workers of other handlers": func() {
		ChildMain(exiting)
		same := func(_ context.Context, v string) (string, error) { return v, nil }
		processes := Options{Processes: true}
		fmt.Fprintln(os.Stderr, "given:", newError(exiting, processes))
		fmt.Fprintln(os.Stderr, "another one:", newError(Each(same), processes))
		fmt.Fprintln(os.Stderr, "one around it:", newError(Preprocess(same, exiting), processes))
		fmt.Fprintln(os.Stderr, "a program:", newError(Exec("cat"), processes)) // it has processes anyway
	},
	"starts children unguarded": func() {
		fmt.Fprintln(os.Stderr, "exec:", newError(Exec("cat"), Options{}))
		fmt.Fprintln(os.Stderr, "hook:", HookCommand("true")(context.Background(), HookCall{}))
	},
	"starts children guarded": func() {
		ChildMain()
		fmt.Fprintln(os.Stderr, "exec:", newError(Exec("cat"), Options{}))
	},
}

// newError makes a worker of a server that nobody talks to, and returns the error.
func newError(h Handler, o Options) error {
	c, err := sdkclient.NewLazyClient(sdkclient.Options{Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	w, err := New(jobs.NewClient(c, nil), "pool", h, o)
	if w != nil {
		w.Close()
	}
	return err
}

// play has the test binary play a role to its end, and returns what it writes.
func play(t *testing.T, role string, env ...string) (stdout, stderr string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), asRole+"="+role), env...)
	cmd.Stdin = strings.NewReader("")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%s", &errs)
	return out.String(), errs.String()
}

// Whatever a process was started as: neither an init function nor New serves or ends it.
func TestNew_NeitherServesNorExits(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{nil, {slotHandler + "=0"}, {"STINT_GUARD=1"}, {slotHandler + "=0", "STINT_GUARD=1"}} {
		t.Run(strings.Join(env, " "), func(t *testing.T) {
			t.Parallel()
			stdout, stderr := play(t, "makes workers", env...)
			require.Empty(t, stdout)
			require.True(t, strings.HasPrefix(stderr, "main began\n"), stderr)
			require.Contains(t, stderr, "plain: <nil>\n")
			require.Contains(t, stderr, "processes: "+errNoChildMain.Error()+"\n")
			require.Contains(t, stderr, "main went on\n")
		})
	}
}

func TestNew_RefusesInASlot(t *testing.T) {
	t.Parallel()
	stdout, stderr := play(t, "makes a worker in a slot", slotHandler+"=0")
	require.Equal(t, "not for the worker\nplain: "+errInSlot.Error()+"\n", stderr)
	require.Empty(t, stdout, "it is the worker's pipe")
}

func TestNew_RefusesAHandlerThatChildMainDoesNotKnow(t *testing.T) {
	t.Parallel()
	_, stderr := play(t, "makes workers of other handlers")
	require.Equal(t, strings.Join([]string{
		"given: <nil>", "another one: " + errNotGiven.Error(), "one around it: " + errNotGiven.Error(), "a program: <nil>", "",
	}, "\n"), stderr)
}

func TestChildMain_BringsTheGuard(t *testing.T) {
	t.Parallel()
	if !guard.Supported {
		t.Skip("no guards here")
	}
	const warning = "no guard process"
	_, stderr := play(t, "starts children unguarded")
	require.Contains(t, stderr, "exec: <nil>\n")
	require.Contains(t, stderr, "hook: <nil>\n")
	require.Equal(t, 2, strings.Count(stderr, warning), stderr)
	_, stderr = play(t, "starts children guarded")
	require.Contains(t, stderr, "exec: <nil>\n")
	require.NotContains(t, stderr, warning)
}

// K7: with Options.Processes the slots are this program again, as ChildMain makes them.
func TestChildMain_ServesASlot(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	server, err := testserver.Start(t.Context())
	require.NoError(t, err)
	defer server.Stop()
	c, err := sdkclient.Dial(sdkclient.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(log)})
	require.NoError(t, err)
	defer c.Close()
	w, err := New(jobs.NewClient(c, nil), "pool", exiting, Options{Processes: true, Slots: 1, Logger: log})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	input, output := filepath.Join(t.TempDir(), "in.txt"), filepath.Join(t.TempDir(), "out.txt")
	require.NoError(t, os.WriteFile(input, []byte("a\nexit\nb\n"), 0o600))
	run, err := jobs.NewClient(c, nil).Start(t.Context(), job.Spec{
		Name: "job", Pool: "pool", Files: &job.Files{Input: []string{input}}, Output: output, Attempts: 1, Backoff: 1e6,
	}, nil)
	require.NoError(t, err)
	report, err := run.Wait(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, report.OK)
	require.EqualValues(t, 1, report.Failed)
	require.Equal(t, job.KindCrash, report.FirstError.Kind)
	pids, err := os.ReadFile(output)
	require.NoError(t, err)
	require.NotContains(t, strings.Fields(string(pids)), fmt.Sprint(os.Getpid()))
}
