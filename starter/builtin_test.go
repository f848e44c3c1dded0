package starter_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// risk makes the box's commands those of a program called risk with its own handler.
func (b *box) risk() {
	b.handler = worker.Each(func(_ context.Context, item string) (string, error) { return "risk of " + item, nil })
	b.options.Name = "risk"
}

var commands = []string{
	"run", "start", "worker", "server", "list", "workers", "status", "watch", "results", "errors", "stop", "resume", "pause", "unpause", "redrive", "set", "plan",
	"loop", "feed", "feed put", "feed call", "feed reset", "feed close", "feed serve", "schedule", "schedule list", "codec-server", "version",
}

// A program with its own handler speaks of itself, not of flags that it refuses.
func TestBuiltIn_Help(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.risk()
	for _, command := range commands {
		help := b.stint(append(strings.Fields(command), "--help")...).exits(starter.ExitOK).stdout.String()
		require.Contains(t, help, "risk "+command)
		for _, of := range append(commands, "COMMAND") {
			require.NotContains(t, help, "stint "+of, command)
		}
		require.NotContains(t, help, "--exec", command)
		require.NotContains(t, help, "--serve", command)
	}
	help := b.stint("--help").exits(starter.ExitOK).stdout.String()
	require.True(t, strings.HasPrefix(help, "Runs its handler over files"), help)
	require.Contains(t, help, "  risk run big.jsonl -o out.jsonl ")
	b.options.About = "Tells the risk of bird strikes."
	help = b.stint().exits(starter.ExitOK).stdout.String()
	require.True(t, strings.HasPrefix(help, "Tells the risk of bird strikes.\n"), help)
}

func TestStint_Help(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, command := range []string{"run", "worker", "plan"} {
		help := b.stint(command, "--help").exits(starter.ExitOK).stdout.String()
		require.Contains(t, help, "stint "+command)
		require.Contains(t, help, "--exec COMMAND")
	}
}

func TestBuiltIn_RefusesOtherHandlers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.risk()
	b.write("in.txt", "a\n")
	b.write("job.yaml", "exec: cat\n")
	for _, line := range [][]string{
		{"run", "--exec", "cat", "in.txt", "-o", "out.txt"},
		{"run", "-f", "job.yaml", "in.txt", "-o", "out.txt"},
		{"worker", "--pool", "p", "--exec", "cat"},
		{"plan", "--sample", "1", "in.txt", "--exec", ""},
	} {
		b.refused(starter.ExitUsage, line, "risk: risk has its own handler: leave --exec out", "See 'risk --help'")
	}
	b.refused(starter.ExitUsage, []string{"worker", "--pool", "p", "--serve", "cat"}, "leave --serve out")
}

func TestBuiltIn_Runs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.risk()
	b.write("in.txt", "a\nb\n")
	b.stint("run", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	require.Equal(t, "\"risk of a\"\n\"risk of b\"\n", b.read("out.txt"))
	require.Contains(t, b.stint("plan", "--sample", "2", "in.txt").exits(starter.ExitOK).stdout.String(), "2 items in 1 input")
}

// The program's worker options and hooks are where the flags start from.
func TestBuiltIn_Options(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.risk()
	var mu sync.Mutex
	var hooks []string
	hook := func(_ context.Context, call worker.HookCall) error {
		mu.Lock()
		defer mu.Unlock()
		hooks = append(hooks, call.Stage)
		return nil
	}
	var slots atomic.Int64
	open := func(context.Context, worker.SlotInfo) (int, error) { return int(slots.Add(1)), nil }
	b.handler = worker.Stateful(open, nil, func(int) worker.Handler { return b.handlerOf("x") })
	var items atomic.Int64
	b.options.Worker = worker.Options{
		Slots: 3, Hooks: map[string]worker.Hook{"tidy": hook},
		Sinks: []worker.Sink{worker.SinkFunc(func(_ context.Context, s worker.Snapshot) error {
			items.Store(s.Total.OK)
			return nil
		})},
	}
	b.options.Init, b.options.Cleanup = []string{"tidy"}, []string{"tidy"}
	b.write("in.txt", "a\nb\n")
	b.refused(starter.ExitUsage, []string{"run", "in.txt", "-o", "out.txt", "--hook", "tidy=true"}, "--hook tidy: there is a hook of that name already")
	b.stint("run", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	require.Equal(t, []string{"init", "cleanup"}, hooks)
	require.EqualValues(t, 3, slots.Load())
	require.EqualValues(t, 2, items.Load())

	slots.Store(0)
	b.stint("run", "in.txt", "-o", "out.txt", "--slots", "1", "--hook", "other=true", "--init", "other", "--cleanup", "other").exits(starter.ExitOK)
	require.Len(t, hooks, 2, "the command line names others")
	require.EqualValues(t, 1, slots.Load())
}

// handlerOf makes a handler that puts a prefix before its items.
func (b *box) handlerOf(prefix string) worker.Handler {
	return worker.Each(func(_ context.Context, item string) (string, error) { return prefix + item, nil })
}
