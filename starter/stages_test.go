package starter_test

import (
	"testing"

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
- {name: clean, pool: upper}
- {name: turn, pool: turn}
`)
	b.worker("upper", "--exec", "tr a-z A-Z")
	running := b.start("start", "-f", "job.yaml", "--wait")
	running.says("no worker serves pool turn")
	b.worker("turn", "--exec", "rev")
	running.exits(starter.ExitOK)
	require.Equal(t, "ENO\nOWT\nEERHT\nRUOF\n", b.read("out.txt"))
}
