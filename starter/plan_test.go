package starter_test

import (
	"testing"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

func TestPlan_Counts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("a.txt", numbers(2500))
	b.write("b.txt.gz", gzipped(t, numbers(500)))
	var s activities.Survey
	b.reads(&s, "plan", "a.txt", "b.txt.gz", "--batch-items", "100", "--json")
	require.Equal(t, 2, s.Inputs)
	require.EqualValues(t, 3000, s.Items)
	require.EqualValues(t, 3000*lineOf, s.Bytes)
	require.EqualValues(t, 30, s.Batches)
	require.Positive(t, s.Events)
	require.Positive(t, s.Actions)
	table := b.stint("plan", "a.txt", "b.txt.gz", "--batch-items", "100").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `3,000 +items\n`, table)
	require.Regexp(t, `30 +batches\n`, table)
	b.requireNotStarted()
}

func TestPlan_StandardInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.startWith(stringReader("{\"a\":1}\n{\"a\":2}\n"), "plan", "-", "--format", "jsonl").exits(starter.ExitOK)
	require.Regexp(t, ` 2 +items\n`, c.stdout.String())
}

func TestPlan_BadInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.refused(starter.ExitFailed, []string{"plan", "missing.txt"}, "/missing.txt", "there is no such file")
	b.refused(starter.ExitUsage, []string{"plan"}, "no input")
}
