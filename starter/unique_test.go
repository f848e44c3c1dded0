package starter_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/starter"
)

// J6: Equal items are called once, and the output is that of a run which calls all, in each form.
func TestUnique_EveryOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		output string
		flags  []string
	}{
		{"out.jsonl", []string{"--reuse"}},
		{"out.csv", nil},
		{"out.jsonl.gz", nil},
		{"out/{}.jsonl", []string{"--split", "mag"}},
		{"out/", nil},
		{"", nil}, // printed
	} {
		t.Run(strings.NewReplacer("{}", "each", "/", "-").Replace("to "+c.output), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			different := quakes(t, 60)
			items := slices.Concat(different, different[10:40], different[:50])
			b.write("in.jsonl", strings.Join(items, ""))
			rate := b.witnessed()
			run := func(flags ...string) (said, output string) {
				in, items := "in.jsonl", ""
				if c.output == "" {
					in, items = "-", b.read("in.jsonl")
				} else {
					flags = append(flags, "-o", c.output)
				}
				if c.output != "" {
					require.NoError(t, os.RemoveAll(b.path(strings.TrimSuffix(c.output, "{}.jsonl"))))
				}
				args := append([]string{"run", in, "--exec", rate, "--format", "jsonl", "--batch-items", "7", "--fresh"}, flags...)
				done := b.startWith(strings.NewReader(items), args...).exits(starter.ExitOK)
				switch said = done.stderr.String(); c.output {
				case "":
					return said, done.stdout.String()
				case "out/":
					return said, b.parts("out")
				case "out.jsonl.gz":
					return said, unpacked(t, b.read(c.output))
				}
				return said, fmt.Sprint(b.files(strings.TrimSuffix(c.output, "{}.jsonl")))
			}
			said, got := run(append([]string{"--unique"}, c.flags...)...)
			require.Contains(t, said, "140 items ok")
			require.Contains(t, said, "80 items with the outcome of an equal one")
			require.ElementsMatch(t, different, b.calledAgain())
			_, want := run(slices.DeleteFunc(slices.Clone(c.flags), func(f string) bool { return f == "--reuse" })...)
			require.Len(t, b.calledAgain(), 140)
			require.Equal(t, want, got)
		})
	}
}

// J6: A run that is killed goes on, and calls nothing twice that it has recorded.
func TestUnique_Killed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow := b.script("slow", `while read -r line; do echo "$line" >> $BOX/witness; `+atHold+`; echo "$line"; done`)
	args := []string{"run", "--unique", "--exec", slow, "in.txt", "-o", "out.txt", "--batch-items", "20", "--slots", "2"}
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprint("line ", i%100))
	}
	b.write("in.txt", strings.Join(lines, "\n")+"\n")
	b.write("witness", "")
	b.killedHalfWay(50, args...)
	require.Equal(t, strings.Join(lines, "\n")+"\n", b.read("out.txt"))
	require.LessOrEqual(t, strings.Count(b.read("witness"), "\n"), 100+2*20, "but for what was in hand")
}

// plan --unique says how many items are equal, and what makes no sense is refused.
func TestUnique_Plan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\nb\na\na\nc\n")
	require.Contains(t, b.stint("plan", "--unique", "in.txt").exits(starter.ExitOK).stdout.String(), "2 items with the outcome of an equal one")
	b.refused(starter.ExitUsage, []string{"plan", "--unique", "--sample", "2", "--exec", "cat", "in.txt"}, "--sample and --unique")
	b.refused(starter.ExitUsage, []string{"plan", "--unique", "-"}, "name a file")
	b.refused(starter.ExitUsage, []string{"start", "--feed", "--unique", "--name", "f", "--pool", "p"}, "--unique")
	job := []string{"--unique", "--reuse", "--exec", "cat", "in.txt", "-o", "out.txt"}
	var plan predict.ReusePlan
	planned := func() int64 {
		plan = predict.ReusePlan{}
		require.NoError(t, json.Unmarshal([]byte(b.stint(append([]string{"plan", "--json"}, job...)...).exits(starter.ExitOK).stdout.String()), &plan))
		return plan.Equal
	}
	require.EqualValues(t, 2, planned())
	b.stint(append([]string{"run"}, job...)...).exits(starter.ExitOK)
	require.Zero(t, planned(), "all are reused")
}

// unpacked returns what gzip has packed.
func unpacked(t *testing.T, data string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(data))
	require.NoError(t, err)
	plain, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(plain)
}
