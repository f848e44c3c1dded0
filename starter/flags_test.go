package starter_test

import (
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

func TestJobFile_StandsForFlags(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("a.data", "a\n")
	b.write("b.data", "b\n")
	b.write("job.yaml", `
exec: tr a-z A-Z
input: [a.data, b.data]
output: out.txt
format: text
batch-items: 1
report: report.json
call-timeout: 5s
env: [X=1, Y=2]
`)
	b.stint("run", "-f", "job.yaml").exits(starter.ExitOK)
	require.Equal(t, "A\nB\n", b.read("out.txt"))
	require.EqualValues(t, 2, b.report("report.json").Batches)
}

func TestJobFile_FlagsOutrankIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("a.txt", "a\n")
	b.write("b.txt", "b\nb\n")
	file := b.write("job.yaml", "exec: cat\ninput: a.txt\noutput: file.txt\nbatch-items: 1\n")
	b.stint("run", "--file", file, "b.txt", "-o", "flag.txt", "--exec", "tr a-z A-Z", "--batch-items", "2", "--report", "report.json").exits(starter.ExitOK)
	require.Equal(t, "B\nB\n", b.read("flag.txt"))
	require.NoFileExists(t, b.path("file.txt"))
	require.EqualValues(t, 1, b.report("report.json").Batches)
}

// TestJobFile_DefaultsAreValues: `run` has its own expiry, but only if none is given.
func TestJobFile_DefaultsAreValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, line, want string }{
		{"given", "expiry: 30s\n", "30s"},
		{"not given", "", "5s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", "a\n")
			b.write("job.yaml", "input: in.txt\noutput: out.txt\nname: expiring\n"+c.line)
			running := b.start("run", "-f", b.path("job.yaml"), "--exec", b.gated())
			eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
			desc, err := b.embedded().DescribeWorkflowExecution(t.Context(), "expiring", "")
			require.NoError(t, err)
			details := string(desc.GetExecutionConfig().GetUserMetadata().GetDetails().GetData())
			require.Contains(t, details, "expiry "+c.want)
			b.open()
			running.exits(starter.ExitOK)
		})
	}
}

func TestJobFile_Refused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file string
		says       []string
	}{
		{"unknown key", "exec: cat\ninput: in.txt\noutputz: x\n", []string{"job.yaml", "line 3", `unknown key "outputz"`, "the keys are"}},
		{"two unknown keys", "wat: 1\nno: 2\n", []string{"line 1", `"wat"`, "line 2", `"no"`}},
		{"wrong value", "exec: cat\ninput: in.txt\nwindow: many\n", []string{"job.yaml", "line 3", "window", "many"}},
		{"stages that are no list", "exec: cat\ninput: in.txt\nstages: clean\n", []string{"line 3", "stages: expected a list such as [{name: clean, pool: filters}"}},
		{"a stage with an unknown key", "input: in.txt\nstages:\n- {name: a, pool: b}\n- {name: c, windows: 8}\n", []string{"line 4", `unknown key "windows"`, "the keys are name"}},
		{"stages of a local run", "exec: cat\ninput: in.txt\nstages: [{name: a, pool: b}]\n", []string{"does not say what runs them here", "start -f"}},
		{"a map for a value", "exec: {a: b}\ninput: in.txt\n", []string{"line 1", "exec", "expected a value"}},
		{"no YAML", "exec: [", []string{"job.yaml", "yaml"}},
		{"null", "exec: cat\ninput: in.txt\noutput: null\n", []string{"job.yaml", "line 3", "output", "expected a value", "leave the key out"}},
		{"no value", "exec: cat\ninput:\n", []string{"job.yaml", "line 2", "expected a value"}},
		{"null in a list", "exec: cat\ninput: [a, ~]\n", []string{"job.yaml", "line 2", "expected a value"}},
		{"two documents", "exec: cat\ninput: in.txt\n---\nwindow: 3\n", []string{"job.yaml", "line 3", "one YAML document"}},
		{"two documents, one of which is broken", "exec: cat\n---\n[\n", []string{"job.yaml", "yaml"}},
		{"a file in the file", "file: other.yaml\n", []string{"line 1", `unknown key "file"`}},
		{"a key twice", "exec: cat\nexec: tac\n", []string{"job.yaml", "line 2", "exec"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", "a\n")
			b.write("job.yaml", c.file)
			b.refused(starter.ExitUsage, []string{"run", "-f", "job.yaml", "-o", "out.txt"}, c.says...)
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		setup(t).refused(starter.ExitUsage, []string{"run", "-f", "nowhere.yaml"}, "nowhere.yaml", "no such file")
	})
}
