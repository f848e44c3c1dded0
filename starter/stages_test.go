package starter_test

import (
	"testing"
	"time"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// TestStages_P1_JobFile: a job file has stages, each with its own pool; one that nobody serves is named, and the job waits for it.
func TestStages_P1_JobFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "one\n\ntwo\nthree\nfour\n")
	b.write("job.yaml", `
name: words
input: in.txt
output: out.txt
stages:
- {name: clean, pool: upper, window: 5}
- {name: turn, pool: turn}
`)
	b.worker("upper", "--exec", "tr a-z A-Z")
	running := b.start("start", "-f", "job.yaml", "--wait")
	running.says("no worker serves pool turn")
	b.refused(starter.ExitFailed, []string{"set", "words", "score.window=3"}, "score.window: no pool runs a stage of that name: use clean, turn")
	set := b.stint("set", "words", "turn.window=30", "clean.window=auto").exits(starter.ExitOK)
	require.Regexp(t, `(?m)^clean\.window +auto\nturn\.window +30$`, set.stdout.String())
	require.Eventually(t, func() bool { return b.status("words").Stages[1].InFlight == 4 }, time.Minute, 50*time.Millisecond)
	status := b.stint("status", "words").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `stage clean +0 batches waiting, 0 running, 4 items done, 0 failed, [0-9.]+ items/s, 100% of the time, pool upper`, status)
	require.Regexp(t, `stage turn +0 batches waiting, 4 running, 0 items done, 0 failed, pool turn`, status)
	b.worker("turn", "--exec", "rev")
	running.exits(starter.ExitOK)
	require.Equal(t, "ENO\nOWT\nEERHT\nRUOF\n", b.read("out.txt"))
}
