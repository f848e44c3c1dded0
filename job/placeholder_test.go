package job

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpec_Ticked(t *testing.T) {
	t.Parallel()
	s := Spec{
		Name: "nightly", Pool: "p", Files: &Files{Input: []string{"in-{date}.jsonl", "{a,b}.csv"}},
		Output: "s3://b/{date}/out-{time}.jsonl?region=x", Report: "report-{time}.json",
	}.WithDefaults()
	got := s.Ticked("nightly-2026-11-21T03:04:05Z")
	require.Equal(t, "nightly-2026-11-21T03:04:05Z", got.Name)
	require.Equal(t, []string{"in-2026-11-21.jsonl", "{a,b}.csv"}, got.Files.Input)
	require.Equal(t, "s3://b/2026-11-21/out-20261121T030405Z.jsonl?region=x", got.Output)
	require.Equal(t, "s3://b/2026-11-21/out-20261121T030405Z.jsonl.errors.jsonl?region=x", got.Errors)
	require.Equal(t, "s3://b/2026-11-21/out-20261121T030405Z.jsonl.stint?region=x", got.Store)
	require.Equal(t, "report-20261121T030405Z.json", got.Report)
	require.NoError(t, got.Validate())
	require.Equal(t, []string{"in-{date}.jsonl", "{a,b}.csv"}, s.Files.Input, "the schedule's own stays as it is")

	other := s.Ticked("by-hand")
	require.Equal(t, "by-hand", other.Name)
	require.Equal(t, s.Output, other.Output, "there is no tick")
}

func splitSpec(output string) Spec {
	return Spec{Name: "nightly", Pool: "p", Files: &Files{Input: []string{"in.jsonl"}}, Output: output, Split: "kind"}
}

// An output that is split has its errors and its store where no value's file can be.
func TestSplit_DefaultLocations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ output, want, store, errors string }{
		{"out/{}.jsonl", "out/{}.jsonl", "out/_split.jsonl.stint", "out/_errors.jsonl"},
		{"out/", "out/{}.jsonl", "out/_split.jsonl.stint", "out/_errors.jsonl"},
		{"/data/all-{}", "/data/all-{}", "/data/all-_split.stint", "/data/all-_errors"},
		{"s3://b/out/?region=r", "s3://b/out/{}.jsonl?region=r", "s3://b/out/_split.jsonl.stint?region=r", "s3://b/out/_errors.jsonl?region=r"},
	} {
		s := splitSpec(c.output).WithDefaults()
		require.Equal(t, []string{c.want, c.store, c.errors}, []string{s.Output, s.Store, s.Errors})
		require.NoError(t, s.Validate(), c.output)
		require.Equal(t, s, s.WithDefaults(), "filling in twice changes nothing")
	}
}

func TestSplit_Fields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"kind": "kind", ".kind": "kind", "..kind": ".kind", "a.b": "a.b"} {
		require.Equal(t, want, Spec{Split: text}.SplitField())
	}
}

// What makes no sense, or would replace a file, is refused before anything starts.
func TestResults_Invalid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(s *Spec)
		want   []string
	}{
		{"no field", func(s *Spec) { s.Split = "." }, []string{`Split ".": name a field of the results`}},
		{"no output", func(s *Spec) { s.Output, s.Store = "", "s" }, []string{"Split kind: results are split into files: name an output with {}"}},
		{"no placeholder", func(s *Spec) { s.Output = "out.jsonl" }, []string{"Output out.jsonl: results that are split by kind need one {} in the file's name"}},
		{"two placeholders", func(s *Spec) { s.Output = "out/{}-{}" }, []string{"need one {}"}},
		{"placeholder in a directory", func(s *Spec) { s.Output = "{}/out" }, []string{"need one {}"}},
		{"a long name", func(s *Spec) { s.Output = "out/{}" + strings.Repeat("x", 60) }, []string{"is too long", "60 bytes"}},
		{"an input in its place", func(s *Spec) { s.Files.Input = []string{"a", "./out/x.jsonl"} }, []string{"Files.Input 2 of 2, ./out/x.jsonl, could also be a file of the output out/{}.jsonl"}},
		{"an input with no value", func(s *Spec) { s.Files.Input = []string{"out/_none.jsonl"} }, []string{"Files.Input 1 of 1"}},
		{"errors in its place", func(s *Spec) { s.Errors = "out/errors.jsonl" }, []string{"Errors out/errors.jsonl could also be a file of the output out/{}.jsonl: name another place, or put '_' where the value goes"}},
		{"dropped items in its place", func(s *Spec) { s.Dropped = "out/dropped.jsonl" }, []string{"Dropped out/dropped.jsonl could also be"}},
		{"a report in its place", func(s *Spec) { s.Report = "out/r.jsonl" }, []string{"Report out/r.jsonl could also be"}},
		{"a store in its place", func(s *Spec) { s.Output, s.Store = "out/{}", "out/store/" }, []string{"Store out/store/ could also be"}},
		{"two outputs of one name", func(s *Spec) { s.Dropped, s.Errors = "x", "x" }, []string{"Dropped x is also the spec's Errors, which it would replace"}},
		{"an output over an input", func(s *Spec) { s.Dropped = "in.jsonl" }, []string{"Dropped in.jsonl is also an input"}},
		{"a feed", func(s *Spec) { s.Feed, s.Files, s.Flatten, s.Dropped = &Feed{}, nil, true, "d" }, []string{"Flatten is for jobs of files only", "Split is for jobs", "Dropped is for jobs"}},
		{"a loop", func(s *Spec) { s.Loop, s.Files, s.Flatten = &Loop{}, nil, true }, []string{"Flatten is for jobs of files only", "Split is for jobs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := splitSpec("out/{}.jsonl")
			c.change(&s)
			err := s.WithDefaults().Validate()
			require.Error(t, err)
			for _, want := range c.want {
				require.Contains(t, err.Error(), want)
			}
		})
	}
	s := splitSpec("out/{}.jsonl")
	s.Errors, s.Report, s.Dropped, s.Files.Input = "out/_e.jsonl", "out/report.json", "out/sub/x.jsonl", []string{"out/in.csv", "out/"}
	require.NoError(t, s.WithDefaults().Validate(), "none of these can be a file of the output")
}

// The placeholder of a split is not one of schedules, and stays when those are filled in.
func TestSplit_OnASchedule(t *testing.T) {
	t.Parallel()
	s := splitSpec("out/{date}-{}.jsonl").WithDefaults()
	require.NoError(t, s.checkPlaceholders())
	ticked := s.Ticked("nightly-2026-11-21T03:00:00Z")
	require.Equal(t, "out/2026-11-21-{}.jsonl", ticked.Output)
	require.Equal(t, "out/2026-11-21-_errors.jsonl", ticked.Errors)
	s.Split = ""
	require.ErrorContains(t, s.checkPlaceholders(), "unknown placeholder {}")
}

func TestResults_JSON(t *testing.T) {
	t.Parallel()
	s := splitSpec("out/{}.jsonl")
	s.Flatten, s.Dropped = true, "d"
	data, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(data), `"output":"out/{}.jsonl","split":"kind","flatten":true,"dropped":"d"`)
	var back Spec
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, s, back)
}
