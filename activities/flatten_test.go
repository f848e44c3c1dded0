package activities

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func jobLines(lines []string) string {
	text := ""
	for _, line := range lines {
		text += line + "\n"
	}
	return text
}

// B11: each element of a list is a line; an empty list gives none, and its item is ok and not dropped; what is not a
// list is its item's error. Items are counted, and lines.
func TestFlatten_B11_Outcomes(t *testing.T) {
	t.Parallel()
	answers := []string{
		`[1,2]`, `[]`, ` [ {"a" : [1, 2.50, "x, ]"] } ,"<&>"]` + "\r", `{"a":1}`, `null`, `[1`, `["\u00e9 \"",-0.0e+1]`, `"[1]"`, `7`, `[true] x`, ``, `[[],[3]]`, "drop",
	}
	f := setup(t, "in.jsonl", jobtest.Lines(len(answers)))
	f.spec.Flatten, f.spec.BatchItems = true, 5
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 2}, Each: func(c *calls.Call, item calls.Item) {
		if answers[item.Ordinal] == "drop" {
			c.Answer.Drop()
			return
		}
		c.Answer.Line([]byte(answers[item.Ordinal]))
	}}, Options{})
	var totals job.Totals
	var entries []wire.Entry
	for _, b := range f.plan() {
		result := f.process(b)
		totals.Add(result.Totals)
		entries = append(entries, result.Entry)
	}
	result := f.finish(f.commit(nil, entries...))
	want := []string{`1`, `2`, `{"a":[1,2.50,"x, ]"]}`, `"<&>"`, `"\u00e9 \""`, `-0.0e+1`, `[]`, `[3]`}
	require.Equal(t, jobLines(want), f.read("out.jsonl"))
	require.EqualValues(t, 6, result.Books.OK)
	require.EqualValues(t, 1, result.Books.Dropped)
	require.EqualValues(t, 7, result.Books.Failed)
	require.EqualValues(t, len(want), result.Books.Lines)
	require.EqualValues(t, len(want), totals.Lines)
	failures := f.read("out.jsonl.errors.jsonl")
	for _, says := range []string{"an object", "null", "not JSON", "a string", "a number"} {
		require.Contains(t, failures, "the handler's answer is "+says+", and the job flattens lists")
	}
	require.Equal(t, 7, strings.Count(failures, `"kind":"invalid"`))
}

// A nil slice of Go is an empty list.
func TestFlatten_NilSlice(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", "1\n2\n")
	f.spec.Flatten = true
	f.serve(&callstest.Handler{As: calls.Traits{Lists: true}, Each: func(c *calls.Call, _ calls.Item) { c.Answer.Line([]byte("null")) }}, Options{})
	result := f.finish(f.commit(nil, f.processAll(f.plan())...))
	require.EqualValues(t, 2, result.Books.OK)
	require.Zero(t, result.Books.Dropped)
	require.Empty(t, f.read("out.jsonl"))
}

// Outcomes that are recorded before their call's assignment has ended are flattened once.
func TestFlatten_LargeAnswers(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(60))
	f.spec.Flatten = true
	large := strings.Repeat("x", 512<<10)
	f.serve(&callstest.Handler{Size: calls.CallSize{Items: 60}, Do: func(c *calls.Call) error {
		for i, item := range c.Items {
			c.Answer.Line(fmt.Appendf(nil, `[["%s"],[%d]]`, large, item.Ordinal))
			if c.Answer.Full() && i+1 < len(c.Items) {
				c.Keep = true
				return calls.FullFault()
			}
		}
		return nil
	}}, Options{})
	result := f.finish(f.commit(nil, f.processAll(f.plan())...))
	want := ""
	for i := range 60 {
		want += fmt.Sprintf("[\"%s\"]\n[%d]\n", large, i)
	}
	require.True(t, want == f.read("out.jsonl"))
	require.EqualValues(t, 120, result.Books.Lines)
}

// In a pipeline the results of the last stage are lists, those of the others are items.
func TestFlatten_LastStageOnly(t *testing.T) {
	t.Parallel()
	p := setupLetters(t, 2, 2, 2, "in.txt", jobtest.Lines(40))
	p.spec.Flatten, p.spec.Dropped, p.spec.BatchItems = true, p.path("dropped"), 7
	p.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 3}, Each: func(c *calls.Call, item calls.Item) {
		switch fateOf(p.step, item.Ordinal, p.failing, p.dropping) {
		case fails:
			c.Answer.Fail(&calls.Fault{Kind: job.KindError}, 1)
		case dropped:
			c.Answer.Drop()
		default:
			c.Answer.Line(fmt.Appendf(nil, "[%s,%d]", item.Data, p.step))
		}
	}}, Options{})
	head, _, totals := p.runs(jobtest.Seeded(t, 11), 2)
	result := p.finish(head)
	want, drops, lines := "", "", 0
	for i, item := range strings.Split(strings.TrimSpace(jobtest.Lines(40)), "\n") {
		first, second := fateOf(0, int64(i), 2, 2), fateOf(1, int64(i), 2, 2)
		switch {
		case first == dropped || first == passes && second == dropped:
			drops += item + "\n"
		case first == passes && second == passes:
			want += fmt.Sprintf("[%s,0]\n1\n", item)
			lines += 2
		}
	}
	require.Equal(t, want, p.read("out.jsonl"))
	require.Equal(t, drops, p.read("dropped"), "of all stages, as the job got them")
	require.EqualValues(t, lines, result.Books.Lines)
	require.EqualValues(t, lines, totals.Lines)
}
