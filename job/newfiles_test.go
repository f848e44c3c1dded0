package job

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func newFilesSpec(output string) Spec {
	return Spec{Name: "nightly", Pool: "p", Files: &Files{Input: []string{"in/"}, NewFiles: true}, Output: output}
}

// N2: all runs of a name, and of a schedule, have one place for their list.
func TestNewFiles_DefaultList(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"/out/new-{date}.jsonl":         "/out/.nightly.completed-files",
		"/out/new-2026-11-21.jsonl":     "/out/.nightly.completed-files",
		"/out/{date:2006/01}/new.jsonl": "/out/.nightly.completed-files",
		"/out/x-{date:2006/01}/new/":    "/out/.nightly.completed-files",
		"/out/2026-11-21/":              "/out/.nightly.completed-files",
		"new.jsonl":                     ".nightly.completed-files",
		"s3://b/out/{date}/?region=r":   "s3://b/out/.nightly.completed-files?region=r",
		"s3://b/out/new.jsonl?region=r": "s3://b/out/.nightly.completed-files?region=r",
		"s3://b/out/":                   "s3://b/.nightly.completed-files",
		"s3://b/":                       "s3://b/.nightly.completed-files",
		"/":                             "/.nightly.completed-files",
	} {
		s := newFilesSpec(output).WithDefaults()
		require.Equal(t, want, s.Files.NewFilesList, output)
		require.NoError(t, s.Validate(), output)
		require.Equal(t, s, s.WithDefaults())
		ticked := s.Ticked("nightly-2026-11-21T03:00:00Z")
		require.Equal(t, want, ticked.WithDefaults().Files.NewFilesList, output)
		require.Equal(t, want, newFilesSpec(output).Ticked("nightly-2026-11-21T03:00:00Z").Files.NewFilesList, output)
	}
	s := newFilesSpec("/out/new.jsonl")
	s.Name = "nightly-2026-11-21T03:00:00Z"
	require.Equal(t, "/out/.nightly.completed-files", s.WithDefaults().Files.NewFilesList)
	s.Files.NewFilesList = "/lists/mine"
	require.Equal(t, "/lists/mine", s.WithDefaults().Files.NewFilesList)
	s.Output, s.Store, s.Files.NewFilesList = "", "/state/jobs/nightly", ""
	require.Equal(t, "/state/jobs/.nightly.completed-files", s.WithDefaults().Files.NewFilesList)
	s.Files.NewFiles = false
	require.Empty(t, s.WithDefaults().Files.NewFilesList)
}

func TestNewFiles_Invalid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(s *Spec)
		want   string
	}{
		{func(s *Spec) { s.Files.NewFiles, s.Files.NewFilesList = false, "x" }, "Files.NewFilesList x: it is for Files.NewFiles"},
		{func(s *Spec) { s.Files.Input = []string{"-"} }, "Files.NewFiles is for files, and the standard input is none"},
		{func(s *Spec) { s.Files.NewFilesList = "lists/" }, "Files.NewFilesList lists/: name a file"},
		{func(s *Spec) { s.Files.NewFilesList = "x-{date}" }, "every run has to find it: leave {date} out"},
		{func(s *Spec) { s.Files.NewFilesList = "x-{date-1:2006/01}" }, "leave {date-1:2006/01} out"},
		{func(s *Spec) { s.Files.NewFilesList = "x-{day:2006/01}" }, "leave {day:2006/01} out"},
		{func(s *Spec) { s.Files.NewFilesList = "./o.jsonl.errors.jsonl" }, "is also the spec's Errors"},
		{func(s *Spec) { s.Files.Input = append(s.Files.Input, "l"); s.Files.NewFilesList = "l" }, "is also an input"},
		{func(s *Spec) { s.Files.NewFilesList = strings.Repeat("x", 3000) }, "3,002 bytes as JSON: at most 2,048"},
	} {
		s := newFilesSpec("o.jsonl")
		c.change(&s)
		require.ErrorContains(t, s.WithDefaults().Validate(), c.want)
	}
}

// N4: the runs of a schedule have outputs of their own.
func TestNewFiles_OnASchedule(t *testing.T) {
	t.Parallel()
	o := ScheduleOptions{Cron: []string{"@daily"}}
	require.ErrorContains(t, o.Validate(newFilesSpec("o.jsonl").WithDefaults()),
		"Output o.jsonl: each run has the results of its new files only, and would replace those of the run before: put {date} or {time} into it")
	require.ErrorContains(t, o.Validate(newFilesSpec("out/").WithDefaults()), "Output out/")
	stored := newFilesSpec("")
	stored.Store = "s/"
	require.ErrorContains(t, o.Validate(stored.WithDefaults()), "Store s/: each run")
	for _, output := range []string{"o-{date}.jsonl", "{time-1h:2006/01/02/15}/", "s3://b/{date}/o.csv"} {
		require.NoError(t, o.Validate(newFilesSpec(output).WithDefaults()), output)
	}
}

func TestNewFiles_JSON(t *testing.T) {
	t.Parallel()
	s := newFilesSpec("o.jsonl").WithDefaults()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(data), `"new_files":true,"new_files_list":".nightly.completed-files"`)
	var back Spec
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, s, back)
}
