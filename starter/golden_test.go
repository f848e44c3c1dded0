package starter_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// With -golden what commands print is written to testdata.
var golden = flag.Bool("golden", false, "write golden files to testdata")

// requireGolden requires that a text is that of testdata/NAME.txt.
func requireGolden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *golden {
		require.NoError(t, os.MkdirAll("testdata", 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "if this is how it should read: go test ./starter -run '^%s$' -golden", t.Name())
}

// varying finds what is different in each run of a command, with what stands for it in a golden file.
var varying = []struct {
	found *regexp.Regexp
	name  string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b`), "RUN"},
	{regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\b`), "DATE"},
	{regexp.MustCompile(`\b([0-9]+h)?([0-9]+m)?[0-9]+(\.[0-9]+)?(s|ms|µs)\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9.,]+ items/s`), "N items/s"},
	{regexp.MustCompile(`[·▁▂▃▄▅▆▇█]{40}`), "BARS"},
	{regexp.MustCompile(`\b[0-9]+ (\([0-9]+ items from) [0-9]+ on\)`), "N $1 N on)"},
	{regexp.MustCompile(`\bpid [0-9]+`), "pid PID"},
}

// settled is a text of the box in which all that is different in each run has one name.
func (b *box) settled(text string) string {
	host, err := os.Hostname()
	require.NoError(b.t, err)
	pid := strconv.Itoa(os.Getpid())
	text = strings.NewReplacer(b.dir, "DIR", host+"-"+pid, "WORKER", "  "+pid+" ", "  PID ").Replace(text)
	for _, v := range varying {
		text = v.found.ReplaceAllString(text, v.name)
	}
	return text
}

// between is what separates two columns of a table.
var between = regexp.MustCompile(` {2,}`)

// table is a table that the box has printed, settled, with columns that fit what it has become. It requires that the
// columns were aligned.
func (b *box) table(printed string) string {
	b.t.Helper()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	var starts []int
	for line := range strings.Lines(printed) {
		line = strings.TrimSuffix(line, "\n")
		runes := []rune(line)
		if starts == nil || line == "" { // another table begins
			starts = nil
			for _, gap := range between.FindAllStringIndex(line, -1) {
				starts = append(starts, len([]rune(line[:gap[1]])))
			}
		}
		for _, at := range starts {
			if at < len(runes) {
				require.Equal(b.t, "  ", string(runes[at-2:at]), "columns are aligned:\n%s", printed)
			}
		}
		fmt.Fprintln(w, between.ReplaceAllString(b.settled(line), "\t"))
	}
	require.NoError(b.t, w.Flush())
	return out.String()
}

// odd makes a filter that fails what ends with 7 or 9.
func (b *box) odd() string {
	b.t.Helper()
	return b.script("odd", `while read -r n; do case $n in *7) echo "no sevens" >&2; exit 1;; *9) echo "no nines" >&2; exit 2;; esac; echo "$n"; done`)
}

// halfway makes a filter that waits at item 50 for the gate.
func (b *box) halfway() string {
	b.t.Helper()
	return b.script("halfway", `while read -r n; do case $n in 0000050) echo >> $BOX/started; while [ ! -e $BOX/gate ]; do sleep 0.02; done;; esac; echo "$n"; done`)
}

// summaryOf is what a command has printed from the job's end on, settled.
func (b *box) summaryOf(c *command, name string) string {
	b.t.Helper()
	said := c.stderr.String()
	at := regexp.MustCompile(`(?m)^` + name + `: (completed|stopped|failed): `).FindStringIndex(said)
	require.NotNil(b.t, at, said)
	return b.settled(said[at[0]:])
}

// 14: how the end of `run` reads, however the job has ended.
func TestGolden_Run(t *testing.T) {
	t.Parallel()
	run := func(b *box, filter string, args ...string) []string {
		b.write("in.txt", numbers(100))
		return append([]string{"run", "--exec", filter, "in.txt", "-o", "out.txt", "--name", "numbers", "--slots", "1", "--backoff", "1ms"}, args...)
	}
	t.Run("ok", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		c := b.stint(run(b, "cat", "--batch-items", "50", "--call-items", "10")...).exits(starter.ExitOK)
		requireGolden(t, "run-ok", b.summaryOf(c, "numbers"))
	})
	t.Run("one item", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.write("one.txt", "1\n")
		c := b.stint("run", "--exec", "cat", "one.txt", "-o", "out.txt", "--name", "numbers", "--slots", "1").exits(starter.ExitOK)
		requireGolden(t, "run-one", b.summaryOf(c, "numbers"))
	})
	t.Run("some failed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		c := b.stint(run(b, b.odd(), "--batch-items", "50", "--call-items", "1", "--attempts", "2")...).exits(starter.ExitSomeFailed)
		requireGolden(t, "run-failed", b.summaryOf(c, "numbers"))
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		c := b.start(run(b, b.halfway(), "--batch-items", "10", "--call-items", "10", "--window", "1", "--grace", "0s")...)
		eventually(t, "item 50", func() bool { return b.lines("started") > 0 })
		c.signals <- syscall.SIGINT
		requireGolden(t, "run-stopped", b.summaryOf(c.exits(starter.ExitStopped), "numbers"))
	})
	t.Run("nothing works", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		c := b.stint(run(b, "false", "--batch-items", "100", "--call-items", "1", "--attempts", "1")...).exits(starter.ExitFailed)
		requireGolden(t, "run-nothing-works", b.summaryOf(c, "numbers"))
	})
}

// 14: how `plan` reads.
func TestGolden_Plan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(12_345))
	b.write("one.txt", "1\n")
	b.write("job.yaml", "{name: birds, input: in.txt, output: out.txt, batch-items: 1000, stages: [{name: clean, pool: one}, {name: score, pool: two}]}")
	requireGolden(t, "plan", b.stint("plan", "in.txt", "--batch-items", "1000").exits(starter.ExitOK).stdout.String())
	requireGolden(t, "plan-one", b.stint("plan", "one.txt").exits(starter.ExitOK).stdout.String())
	requireGolden(t, "plan-stages", b.stint("plan", "-f", "job.yaml").exits(starter.ExitOK).stdout.String())
}

// 14: how `status`, `list` and `workers` read while jobs run and once they have ended.
func TestGolden_Cluster(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.env = append(b.env, "STINT_UI=http://127.0.0.1:8233")
	b.write("in.txt", numbers(100))
	b.worker("odd", "--exec", b.odd(), "--slots", "1", "--call-items", "1", "--version", "v1")
	b.worker("halfway", "--exec", b.halfway(), "--slots", "1", "--call-items", "10", "--version", "v2")
	ended := b.stint("start", "--pool", "odd", "--name", "ended", "in.txt", "-o", "ended.txt", "--batch-items", "50", "--attempts", "1", "--wait").exits(starter.ExitSomeFailed)
	said := ended.stderr.String()
	requireGolden(t, "start-ended", b.settled(said[strings.LastIndex(said, "\nended: ")+1:]))
	require.Regexp(t, `(?m)^page: http://127.0.0.1:8233/namespaces/default/workflows/ended/[0-9a-f-]+/user-metadata$`, said, "14.5: however short the job")
	requireGolden(t, "status-ended", b.table(b.stint("status", "ended").exits(starter.ExitOK).stdout.String()))

	b.write("job.yaml", "{name: stages, input: in.txt, output: stages.txt, batch-items: 25, attempts: 1, "+
		"stages: [{name: clean, pool: odd}, {name: score, pool: nobody, window: 8}]}")
	b.stint("start", "-f", "job.yaml").exits(starter.ExitOK)
	eventually(t, "the first stage", func() bool {
		r := b.status("stages")
		return len(r.Stages) == 2 && r.Stages[0].Done == 100 && r.Stages[1].InFlight == 4 && len(r.Workers) > 0
	})
	requireGolden(t, "status-stages", b.table(b.stint("status", "stages").exits(starter.ExitOK).stdout.String()))

	b.stint("start", "--pool", "halfway", "--name", "running", "in.txt", "-o", "running.txt", "--batch-items", "10", "--window", "1").exits(starter.ExitOK)
	eventually(t, "the fifty items before the one that waits, and the heartbeat of its batch", func() bool {
		var r struct {
			job.Report
			Running []jobs.RunningBatch `json:"running"`
		}
		b.reads(&r, "status", "running", "--json")
		return r.OK == 50 && r.Batches == 5 && len(r.Running) == 1 && !r.Running[0].Beat.IsZero()
	})
	requireGolden(t, "status-running", b.table(b.stint("status", "running").exits(starter.ExitOK).stdout.String()))
	requireGolden(t, "workers", b.table(b.stint("workers").exits(starter.ExitOK).stdout.String()))
	for _, name := range []string{"running", "stages"} {
		b.stint("stop", name, "--grace", "0s", "--wait").exits(starter.ExitOK)
	}
	b.stint("start", "--pool", "nobody", "--name", "waiting", "in.txt", "-o", "waiting.txt").exits(starter.ExitOK)
	eventually(t, "the list of all jobs", func() bool {
		var listed []jobs.Listed
		b.reads(&listed, "list", "--json")
		return len(listed) == 4 && listed[1].State == job.Stopped && listed[2].State == job.Stopped
	})
	requireGolden(t, "list", b.table(b.stint("list").exits(starter.ExitOK).stdout.String()))
}
