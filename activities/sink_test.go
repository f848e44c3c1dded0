//go:build unix

package activities

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pipe makes a named pipe, and read returns what it gets.
func (f *fixture) pipe(name string) (read func() string) {
	f.t.Helper()
	require.NoError(f.t, syscall.Mkfifo(f.path(name), 0o600))
	return func() string {
		data, err := os.ReadFile(f.path(name))
		require.NoError(f.t, err)
		return string(data)
	}
}

func (f *fixture) requireType(name string, kind fs.FileMode) {
	f.t.Helper()
	info, err := os.Lstat(f.path(name))
	require.NoError(f.t, err)
	require.Equal(f.t, kind, info.Mode().Type(), "%s is what it was", name)
}

// reading reads pipes while fn runs.
func reading(fn func(), reads ...func() string) (got []string) {
	texts := make([]chan string, len(reads))
	for i, read := range reads {
		texts[i] = make(chan string, 1)
		go func() { texts[i] <- read() }()
	}
	fn()
	for _, text := range texts {
		got = append(got, <-text)
	}
	return got
}

// A pipe in the place of an output gets it once, when the job has finished; the results stay readable, and a redrive
// can merge them.
func TestD20_APipeInAnOutputsPlace(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	f.spec.Errors = f.path("errors")
	results, errors := f.pipe("out.jsonl"), f.pipe("errors")
	batches := f.plan()
	require.NotEmpty(t, batches)
	f.requireType("out.jsonl", fs.ModeNamedPipe)
	f.next.Item = 0
	heads, want, wantErrors := f.done(1)
	got := reading(func() { f.finish(heads...) }, results, errors)
	require.Equal(t, want, got[0])
	require.Contains(t, got[1], `"message":"item 3"`)
	require.NotEmpty(t, wantErrors)
	f.requireType("out.jsonl", fs.ModeNamedPipe)
	f.requireType("errors", fs.ModeNamedPipe)

	f.finish(heads...) // repeated, it writes nothing more: nobody reads
	report := f.report(heads...)
	output := f.finish(heads...).Output
	report.Output = &output
	printed, _ := f.results(report, false, 0)
	require.Equal(t, want, printed)
	printed, _ = f.results(report, true, 0)
	require.Equal(t, got[1], printed)
}

// A table, and the files beside an output that keeps its parts, go into pipes, too.
func TestD20_PipesInThePlacesOfOtherOutputs(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", `{"a":1}`+"\n"+`{"a":2}`+"\n")
	f.spec.Output = f.path("out.csv")
	f.newRun("run-1")
	table := f.pipe("out.csv")
	head := f.commit(nil, f.processAll(f.plan())...)
	got := reading(func() { f.finish(head) }, table)
	require.Equal(t, "a\n1\n2\n", got[0])
	f.requireType("out.csv", fs.ModeNamedPipe)

	f = setup(t, "in.jsonl", jobtest.Lines(50))
	f.spec.Output, f.spec.Errors = f.path("out")+"/", f.path("errors")
	f.newRun("run-1")
	errors := f.pipe("errors")
	heads, _, _ := f.done(1)
	got = reading(func() { f.finish(heads...) }, errors)
	require.Contains(t, got[0], `"message":"item 3"`)
	f.finish(heads...)
	f.requireType("errors", fs.ModeNamedPipe)
}

// What went into a pipe is in the parts: they are kept and read, whatever stands in the pipe's place afterwards.
func TestD20_AFileInThePlaceOfAPipe(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	output := f.pipe("out.jsonl")
	heads, want, _ := f.done(1)
	var report job.Report
	got := reading(func() { report = f.finished(heads...) }, output)
	require.Equal(t, want, got[0])
	require.NoError(t, os.Remove(f.path("out.jsonl")))
	require.NoError(t, os.WriteFile(f.path("out.jsonl"), []byte("of somebody else\n"), 0o600))
	printed, _ := f.results(report, false, 0)
	require.Equal(t, want, printed)
}

// If one file beside the output has to be made again, a pipe beside it does not get its bytes again.
func TestD20_APipeGetsNothingAgainWithAnotherFile(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	f.spec.Errors, f.spec.Dropped = f.path("errors"), f.path("dropped.jsonl")
	f.newRun("run-1")
	errors := f.pipe("errors")
	heads, _, _ := f.done(1)
	got := reading(func() { f.finish(heads...) }, errors)
	require.Contains(t, got[0], `"message":"item 3"`)
	dropped := f.read("dropped.jsonl")
	require.NotEmpty(t, dropped)
	require.NoError(t, os.WriteFile(f.path("dropped.jsonl"), []byte("of an earlier run\n"), 0o600))
	finished := make(chan struct{})
	go func() { defer close(finished); f.finish(heads...) }()
	select {
	case <-finished: // nobody reads the pipe: a write would wait
	case <-time.After(20 * time.Second):
		_, _ = os.ReadFile(f.path("errors"))
		<-finished
		t.Error("the pipe gets its bytes again")
	}
	require.Equal(t, dropped, f.read("dropped.jsonl"))
}

// A device gets what is written, and neither it nor a link to it is ever replaced or removed.
// (X6: nothing but an ordinary file is ever replaced.)
func TestD20_ADeviceInAnOutputsPlace(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	f.spec.Errors, f.spec.Dropped = f.path("null"), f.path("null")
	if err := unix.Mknod(f.path("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skipf("devices cannot be made here: %v", err)
	}
	require.NoError(t, os.Symlink("null", filepath.Join(f.dir, "out.jsonl")))
	heads, want, _ := f.done(1)
	report := f.finished(heads...)
	f.requireType("null", fs.ModeDevice|fs.ModeCharDevice)
	f.requireType("out.jsonl", fs.ModeSymlink)
	got, _ := f.results(report, false, 0)
	require.Equal(t, want, got)

	f.newRun("run-2") // nothing fails: there is no file of errors, and the device is not removed
	head := f.commit(nil, f.processAll(f.plan())...)
	f.finish(head)
	f.requireType("null", fs.ModeDevice|fs.ModeCharDevice)
}
