package starter_test

import (
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// mute starts a server to which clients can connect, and which answers nothing else. Whatever is asked is sent to the
// channel, if there is room.
func (b *box) mute() <-chan string {
	b.t.Helper()
	asked := make(chan string, 100)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		switch {
		case strings.HasSuffix(method, "/GetSystemInfo"):
			return s.SendMsg(&workflowservice.GetSystemInfoResponse{})
		case strings.HasSuffix(method, "Health/Check"):
			return s.SendMsg(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING})
		}
		select {
		case asked <- method:
		default:
		}
		<-s.Context().Done()
		return s.Context().Err()
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	b.t.Cleanup(func() { server.Stop(); <-served })
	b.env = append(b.env, "TEMPORAL_ADDRESS="+listener.Addr().String())
	return asked
}

// waiting are the commands that wait for a server, a job or its workers, each in the ways in which it does so. Words
// such as "a-job" are names of jobs: see jobKinds.
var waiting = map[string][]string{
	"list": {"list"}, "workers": {"workers", "workers --pool p"}, "status": {"status a-job", "status an-ended-job"}, "watch": {"watch a-job"},
	"feed put": {"feed put a-feed 1", "feed put a-feed --wait 2s 1"}, "feed call": {"feed call a-feed 1"}, "feed reset": {"feed reset one-feed"},
	"feed close": {"feed close one-feed", "feed close one-feed --wait"},
	"results":    {"results a-job", "results a-job --follow", "results a-feed --follow"}, "set": {"set a-job window=1"},
	"errors": {"errors a-job", "errors a-job --follow"}, "report": {"report a-job -o report.html"},
	"stop": {
		"stop one-job", "stop one-feed", "stop one-job --wait", "stop one-feed --wait", "stop --all", "stop --pool p --wait",
		"stop one-job --terminate", "stop --all --terminate",
	},
	"resume": {"resume a-stopped-job", "resume a-stopped-job --wait", "resume an-ended-job", "resume an-ended-job --wait", "resume an-ended-loop"},
	"pause":  {"pause a-job"}, "unpause": {"unpause a-job"},
	"redrive": {"redrive a-faulty-job", "redrive a-faulty-job --wait"},
	"start": {
		"start --pool p in.txt -o out.txt", "start --pool p in.txt -o out.txt --wait", "start --feed --pool p -o feed.out --wait",
		"start --pool p in.txt -o out.txt --name a-name --cron @daily",
	},
	"loop":          {"loop --pool p", "loop --pool p --wait"},
	"schedule list": {"schedule list"}, "schedule pause": {"schedule pause a-schedule"}, "schedule resume": {"schedule resume a-schedule"},
	"schedule trigger": {"schedule trigger a-schedule"}, "schedule delete": {"schedule delete a-schedule"},
}

// others are the commands that deal with signals themselves, and those that wait for nothing.
var others = []string{
	"run", "worker", "server", "ui", "feed serve", "codec-server", "plan", "version", "help", "feed", "schedule",
	"completion bash", "completion fish", "completion powershell", "completion zsh",
}

// leaves are the names of all commands that do something.
func leaves(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if sub.Runnable() && sub.Name() != "completion" {
			names = append(names, strings.TrimPrefix(sub.CommandPath(), "stint "))
		}
		names = append(names, leaves(sub)...)
	}
	return names
}

// TestD15_EveryCommandEndsAtTheFirstSignal: a new command must be in one of the lists.
func TestD15_EveryCommandEndsAtTheFirstSignal(t *testing.T) {
	t.Parallel()
	root := starter.Commands()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	require.ElementsMatch(t, leaves(root), slices.Concat(slices.Collect(maps.Keys(waiting)), others))
	for _, lines := range waiting {
		for _, line := range lines {
			for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
				t.Run(line+" "+s.String(), func(t *testing.T) {
					t.Parallel()
					b := setup(t)
					b.write("in.txt", "a\n")
					asked := b.mute()
					c := b.start(strings.Fields(line)...)
					select {
					case <-asked:
					case <-c.ended:
						require.FailNow(t, "it has ended before it waited", c.stderr.String())
					}
					c.signals <- s
					c.exits(starter.ExitInterrupted)
					require.NotContains(t, c.stderr.String(), "context canceled")
				})
			}
		}
	}
}

// forTheEnd reports whether a command waits for what only a worker can bring about.
func forTheEnd(line string) bool {
	return strings.Contains(line, "--wait") && !strings.HasPrefix(line, "feed put ") || strings.Contains(line, "--follow") || strings.HasPrefix(line, "watch ")
}

// limited reports whether a command line has a time limit.
func limited(t *testing.T, line string) bool {
	t.Helper()
	cmd, _, err := starter.Commands().Find(strings.Fields(line))
	require.NoError(t, err)
	has := cmd.Flags().Lookup("timeout") != nil
	switch cmd.Name() {
	case "put", "call", "reset", "close":
		require.True(t, has, line)
		return true
	}
	require.True(t, has || !forTheEnd(line), line)
	return forTheEnd(line)
}

// TestS19_EveryCommandKeepsItsTimeLimit, and says who does not answer.
func TestS19_EveryCommandKeepsItsTimeLimit(t *testing.T) {
	t.Parallel()
	for _, lines := range waiting {
		for _, line := range lines {
			if !limited(t, line) {
				continue
			}
			t.Run(line, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.write("in.txt", "a\n")
				b.mute()
				c := b.stint(append(strings.Fields(line), "--timeout", "300ms")...).exits(starter.ExitTimeout)
				require.Contains(t, c.stderr.String(), "the Temporal server has not answered within --timeout 300ms")
				b.refused(starter.ExitUsage, append(strings.Fields(line), "--timeout", "0s"), "--timeout 0s: use a duration above 0")
			})
		}
	}
	b := setup(t)
	for _, line := range []string{"stop j", "start --pool p in.txt -o out.txt", "loop --pool p", "resume j", "redrive j"} {
		b.refused(starter.ExitUsage, append(strings.Fields(line), "--timeout", "1s"), "--timeout", "--wait")
	}
}

// TestD14_LimitOfDialling: a server that takes connections and nothing else does not make a limit longer.
func TestD14_LimitOfDialling(t *testing.T) {
	t.Parallel()
	b := setup(t)
	frozen := newCable(t, closedAddress(t))
	frozen.hold()
	b.env = append(b.env, "TEMPORAL_ADDRESS="+frozen.address())
	for _, line := range []string{"feed put j 1", "feed call j 1", "feed reset j", "feed close j", "watch j"} {
		c := b.stint(append(strings.Fields(line), "--timeout", "300ms")...).exits(starter.ExitTimeout)
		require.Contains(t, c.stderr.String(), "the Temporal server has not answered within --timeout 300ms: no Temporal server answers at "+frozen.address()+": no answer in time")
	}
}

// TestD15_JobWhosePoolIsDead: a stop waits for a worker, for as long as it may; --terminate does without, and loses
// nothing.
func TestD15_JobWhosePoolIsDead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "a\n")
	b.stint("start", "--pool", "dead", "--name", "j", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	b.declined(starter.ExitTimeout, []string{"watch", "j", "--timeout", "10s"}, "j has not ended within 10s, and continues", "no worker serves pool dead")
	b.declined(starter.ExitTimeout, []string{"stop", "j", "--wait", "--timeout", "10s"}, "the stop stays requested", "'stint stop j --terminate'", "no worker serves pool dead")
	waits := b.start("stop", "j", "--wait")
	waits.says("no worker serves pool dead")
	waits.signals <- syscall.SIGINT
	waits.exits(starter.ExitInterrupted)
	require.Contains(t, waits.stderr.String(), "no longer waiting for j; the stop stays requested")
	require.NotContains(t, waits.stderr.String(), "continues", "D34: it ends then")
	b.refused(starter.ExitUsage, []string{"stop", "j", "--terminate", "--grace", "1s"}, "leave --grace out")
	b.refused(starter.ExitFailed, []string{"stop", "nobody", "--terminate"}, `no job named "nobody"`)

	b.declined(starter.ExitOK, []string{"stop", "j", "--terminate", "--reason", "the cluster is gone"}, "j has been ended", "'stint resume j'")
	b.declined(starter.ExitOK, []string{"stop", "j", "--terminate"}, "has ended already")
	require.Equal(t, "0\n", b.stint("stop", "--all", "--terminate").exits(starter.ExitOK).stdout.String())
	require.Contains(t, b.stint("list").exits(starter.ExitOK).stdout.String(), "failed")
	b.worker("dead", "--exec", "tr a-z A-Z")
	b.stint("resume", "j", "--wait", "--timeout", "10m").exits(starter.ExitOK)
	require.Equal(t, "A\n", b.read("out.txt"))
}
