package starter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// quakes returns the first earthquakes of the examples, one a line.
func quakes(t *testing.T, n int) []string {
	t.Helper()
	data, err := os.ReadFile("../examples/data/earthquakes.jsonl")
	require.NoError(t, err)
	return strings.SplitAfter(string(data), "\n")[:n]
}

// witnessed makes a filter that notes its items in the file "called", and answers with their ids and magnitudes.
func (b *box) witnessed() string {
	return b.script("rate", `tee -a $BOX/called | sed -E 's/.*"mag":([^,]*),.*"code":"([^"]*)".*/{"id":"\2","mag":\1}/'`)
}

// calledAgain returns the items that have been called since it was asked last.
func (b *box) calledAgain() []string {
	b.t.Helper()
	data, err := os.ReadFile(b.path("called"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(b.t, err)
	require.NoError(b.t, os.Remove(b.path("called")))
	return strings.SplitAfter(strings.TrimSuffix(string(data), "\n")+"\n", "\n")[:strings.Count(string(data), "\n")]
}

// files returns what there is at an output: one file, or those of a directory.
func (b *box) files(output string) map[string]string {
	b.t.Helper()
	all := map[string]string{}
	if info, err := os.Stat(b.path(output)); err == nil && !info.IsDir() {
		return map[string]string{"": b.read(output)}
	}
	entries, err := os.ReadDir(b.path(output))
	require.NoError(b.t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".jsonl") && e.Name() != "manifest.jsonl" {
			all[e.Name()] = b.read(filepath.Join(output, e.Name()))
		}
	}
	return all
}

// parts returns the results of an output that keeps its parts, as its list names them.
func (b *box) parts(output string) (results string) {
	b.t.Helper()
	for line := range strings.Lines(b.read(output + "/manifest.jsonl")) {
		var listed struct{ Part string }
		require.NoError(b.t, json.Unmarshal([]byte(line), &listed))
		results += b.read(output + "/" + listed.Part)
	}
	return results
}

// J1: Only what is new or has changed is called, and the output is that of a run of all items, in each form.
func TestReuse_EveryOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		output string
		flags  []string
	}{
		{"out.jsonl", nil},
		{"out.jsonl", []string{"--key", "properties.code"}},
		{"out.csv", nil},
		{"out.jsonl.gz", nil},
		{"out/{}.jsonl", []string{"--split", "mag"}},
	} {
		t.Run(strings.NewReplacer("{}", "each").Replace(c.output+strings.Join(c.flags, " ")), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			items := quakes(t, 120)
			rate := b.witnessed()
			run := func() string {
				b.write("in.jsonl", strings.Join(items, ""))
				args := append([]string{"run", "--reuse", "--exec", rate, "in.jsonl", "-o", c.output}, c.flags...)
				return b.stint(args...).exits(starter.ExitOK).stderr.String()
			}
			require.Contains(t, run(), "nothing is reused: no run has kept results before")
			require.ElementsMatch(t, items, b.calledAgain())
			require.Contains(t, run(), "reused 120 of 120 results, 0 new, 0 changed, 0 gone")
			require.Empty(t, b.calledAgain())

			changed := strings.Replace(items[3], `"mag":`, `"mag":1`, 1)
			items = append(append([]string{quakes(t, 121)[120], changed}, items[4:100]...), items[0], items[1])
			said := run()
			require.ElementsMatch(t, items[:2], b.calledAgain())
			if len(c.flags) > 0 && c.flags[0] == "--key" {
				require.Contains(t, said, "reused 98 of 120 results, 1 new, 1 changed, 21 gone")
			} else {
				require.Contains(t, said, "reused 98 of 120 results, 2 new, 0 changed, 22 gone")
			}
			got := b.files(strings.TrimSuffix(c.output, "{}.jsonl"))
			require.NoError(t, os.RemoveAll(b.path(strings.TrimSuffix(c.output, "/{}.jsonl"))))
			var others []string
			for i := 0; i < len(c.flags); i += 2 {
				if c.flags[i] != "--key" {
					others = append(others, c.flags[i], c.flags[i+1])
				}
			}
			b.stint(append([]string{"run", "--state", "other", "--exec", rate, "in.jsonl", "-o", c.output}, others...)...).exits(starter.ExitOK)
			if !strings.HasSuffix(c.output, ".gz") { // its members are as the parts were
				require.Equal(t, b.files(strings.TrimSuffix(c.output, "{}.jsonl")), got)
			}
		})
	}
}

// J1: A job without an output of its own, one that keeps its parts, commands, and pipelines.
func TestReuse_EveryHandler(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"printed":       {"--exec", "$RATE", "in.jsonl"},
		"parts":         {"--exec", "$RATE", "in.jsonl", "-o", "out/"},
		"a command":     {"--each", "$RATE", "--stdin", "item", "in.jsonl", "-o", "out.jsonl"},
		"with a header": {"--exec", "$RATE", "in.csv", "-o", "out.jsonl"},
		"stages":        {"-f", "job.yaml", "in.jsonl", "-o", "out.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			rate := b.script("rate", `tee -a $BOX/called | sed 's/}$/,"rated":1}/'`)
			b.write("job.yaml", "stages: [{name: rate, pool: rate}, {name: mark, pool: mark}]\npools:\n  rate: {exec: "+rate+"}\n  mark: {exec: \"sed 's/}$/,\\\"mark\\\":2}/'\"}\n")
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "$RATE", rate)
			}
			run := func(values ...string) (out string, called []string) {
				var objects, records strings.Builder
				records.WriteString("v\n")
				for _, v := range values {
					fmt.Fprintf(&objects, `{"v":%q}`+"\n", v)
					fmt.Fprintln(&records, v)
				}
				b.write("in.jsonl", objects.String())
				b.write("in.csv", records.String())
				c := b.stint(append([]string{"run", "--reuse"}, args...)...).exits(starter.ExitOK)
				switch name {
				case "parts":
					return b.parts("out"), b.calledAgain()
				case "printed":
					return c.stdout.String(), b.calledAgain()
				}
				return b.read("out.jsonl"), b.calledAgain()
			}
			_, called := run("a", "b", "c", "d")
			require.Len(t, called, 4)
			out, called := run("d", "a", "x", "c")
			require.Equal(t, []string{`{"v":"x"}` + "\n"}, called)
			end := `,"rated":1}`
			if name == "stages" {
				end = `,"rated":1,"mark":2}`
			}
			var want string
			for _, v := range []string{"d", "a", "x", "c"} {
				want += `{"v":"` + v + `"` + end + "\n"
			}
			require.Equal(t, want, out)
		})
	}
}

// J2: Results of another version, or of another job, and where they are kept.
func TestReuse_VersionsAndJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rate := b.script("rate", `tee -a $BOX/called`)
	b.write("in.txt", "a\nb\n")
	b.write("prompt.txt", "one")
	b.refused(starter.ExitFailed, []string{"run", "--reuse=nobody", "--exec", rate, "in.txt", "-o", "other.txt"}, "nobody")
	run := func(called int, flags ...string) string {
		t.Helper()
		said := b.stint(append([]string{"run", "--exec", rate, "in.txt", "-o", "out.txt"}, flags...)...).exits(starter.ExitOK).stderr.String()
		require.Len(t, b.calledAgain(), called)
		return said
	}
	run(2, "--reuse", "--version", "v1", "--version-of", "prompt.txt")
	run(0, "--reuse", "--version", "v1", "--version-of", "prompt.txt")
	b.write("prompt.txt", "two")
	require.Contains(t, run(2, "--reuse", "--version", "v1", "--version-of", "prompt.txt"), "they are of version v1 prompt.txt:")
	run(2, "--reuse", "--name", "first")
	run(0, "--reuse=first", "--name", "second")
	run(0, "--reuse", "--name", "second")
	b.write("in.txt", "a\nc\n")
	run(1, "--reuse=first", "--name", "third", "--reuse-store", "kept/")
	require.FileExists(t, b.path("kept/reuse/current.jsonl"))
	require.Contains(t, run(2, "--reuse", "--name", "other", "--reuse-store", "kept/"), "they are of job third, and not of other: --reuse=third takes them")
	run(2, "--reuse", "--name", "third", "--reuse-store", "kept/")
	require.NoError(t, os.RemoveAll(b.path(".stint/jobs/first")), "nothing of a later run is there")
	run(0, "--reuse", "--name", "third", "--reuse-store", "kept/")
	require.Equal(t, "a\nc\n", b.read("out.txt"))
}

// J3: plan --reuse says what a run would do, with an example of each.
func TestReuse_Plan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	job := []string{"--reuse", "--key", "id", "--exec", b.script("mark", "sed 's/\"v\"/\"w\"/;/fail/d'"), "in.jsonl", "-o", "out.jsonl"}
	b.write("in.jsonl", `{"id":1,"v":"a"}`+"\n"+`{"id":2,"v":"a"}`+"\n"+`{"id":3,"v":"a"}`+"\n"+`{"id":4,"v":"fail"}`+"\n")
	b.refused(starter.ExitUsage, []string{"plan", "--reuse", "in.jsonl"}, "which job?")
	require.Contains(t, b.stint(append([]string{"plan"}, job...)...).exits(starter.ExitOK).stdout.String(), "no run has kept results before")
	b.stint(append([]string{"run", "--backoff", "1ms"}, job...)...).exits(starter.ExitSomeFailed)
	b.write("in.jsonl", `{"id":5,"v":"n"}`+"\n"+`{"id":1,"v":"a"}`+"\n"+`{"id":3,"v":"b"}`+"\n"+`{"id":4,"v":"fail"}`+"\n"+`no JSON`+"\n")
	said := b.stint(append([]string{"plan"}, job...)...).exits(starter.ExitOK).stdout.String()
	for _, text := range []string{`such as {"id":5,"v":"n"}`, "1 reused", "1 new", "1 changed", "1 again", "1 invalid", "1 gone", `such as {"id":2,"w":"a"}`, "3 results of run "} {
		require.Contains(t, said, text)
	}
	var plan predict.ReusePlan
	require.NoError(t, json.Unmarshal([]byte(b.stint(append([]string{"plan", "--json"}, job...)...).exits(starter.ExitOK).stdout.String()), &plan))
	require.EqualValues(t, 5, plan.Items)
	require.EqualValues(t, 1, plan.Gone)
	require.Contains(t, b.stint(append([]string{"plan", "--version", "2"}, job...)...).exits(starter.ExitOK).stdout.String(), "no results are reused: they are of version none")
}

// J1: A run that is killed goes on with what it had begun with, and calls nothing twice that it has recorded.
func TestReuse_Killed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow := b.script("slow", `while read -r line; do echo "$line" >> $BOX/witness; `+atHold+`; echo "$line"; done`)
	args := []string{"run", "--reuse", "--exec", slow, "in.txt", "-o", "out.txt", "--batch-items", "20", "--slots", "2"}
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	b.write("in.txt", strings.Join(lines, "\n")+"\n")
	b.write("witness", "")
	b.stint(args...).exits(starter.ExitOK)
	for i := 0; i < 200; i += 2 {
		lines[i] = fmt.Sprint("other ", i)
	}
	b.write("in.txt", strings.Join(lines, "\n")+"\n")
	b.write("witness", "")
	b.killedHalfWay(50, args...)
	require.Equal(t, strings.Join(lines, "\n")+"\n", b.read("out.txt"))
	require.NotContains(t, b.read("witness"), "line", "what is as it was is not called")
	b.write("witness", "")
	b.stint(args...).exits(starter.ExitOK)
	require.Empty(t, b.read("witness"))
}

// J5: Three ticks of a schedule over files that grow, of which the worker is killed in the second: each record is called
// once, but for what was in hand.
func TestReuse_Schedule(t *testing.T) {
	t.Parallel()
	b, s := scheduling(t)
	slow := b.script("slow", `while read -r line; do echo "$line" >> $BOX/witness; `+atHold+`; echo "$line"; done`)
	worker := []string{"worker", "--pool", "p", "--exec", slow, "--allow", b.dir, "--slots", "1", "--drain", "1s"}
	first := b.spawn(worker...)
	b.write("witness", "")
	b.stint("start", "--reuse", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "--expiry", "2s", "--batch-items", "10", "--attempts", "5",
		"in/", "-o", "out-{date}.txt").exits(starter.ExitOK)
	var all string
	grow := func(day int) {
		var text string
		for i := range 40 {
			text += fmt.Sprintf("day %d, line %d\n", day, i)
		}
		b.write(fmt.Sprintf("in/%d.txt", day), text)
		all += text
	}
	grow(1)
	s.ran("nightly", 1, starter.ExitOK)
	require.Equal(t, 40, strings.Count(b.read("witness"), "\n"))
	grow(2)
	b.hold(60)
	s.at("nightly", 2)
	eventually(t, "half of the new items", func() bool { return strings.Count(b.read("witness"), "\n") >= 60 })
	first.signal(syscall.SIGKILL)
	first.await()
	b.release()
	b.spawn(worker...)
	b.stint("watch", run("nightly", 2)).exits(starter.ExitOK)
	require.Equal(t, all, b.read("out-2026-01-02.txt"))
	called := strings.Count(b.read("witness"), "\n")
	require.LessOrEqual(t, called, 80+10, "the batch in hand is called again")
	require.Equal(t, 40, strings.Count(b.read("witness"), "day 1"))
	grow(3)
	s.ran("nightly", 3, starter.ExitOK)
	require.Equal(t, all, b.read("out-2026-01-03.txt"))
	require.Equal(t, called+40, strings.Count(b.read("witness"), "\n"))
	require.Contains(t, b.stint("status", run("nightly", 3)).exits(starter.ExitOK).stdout.String(), "80 of 80 results, 40 new, 0 changed, 0 gone")
}

// What makes no sense is refused before anything starts.
func TestReuse_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--key", "id"}, "--reuse"},
		{[]string{"--pin"}, "--pin is for jobs on a cluster"},
		{[]string{"--reuse", "--changed", "v"}, "Key"},
		{[]string{"--reuse", "--version-of", "missing.txt"}, "missing.txt"},
		{[]string{"--reuse=No Job"}, "No Job"},
		{[]string{"--reuse", "--key", strings.Repeat("k", 600)}, "500 bytes"},
	} {
		b.refused(starter.ExitUsage, append([]string{"run", "--exec", "cat", "in.txt", "-o", "out.txt"}, c.flags...), c.says)
	}
}
