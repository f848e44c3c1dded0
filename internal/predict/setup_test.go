package predict

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a job in a new directory.
type fixture struct {
	t    *testing.T
	dir  string
	spec job.Spec
	ref  wire.Ref
	next wire.Cursor
	acts *activities.Activities // that plan; nil until needed
}

// setup returns a fixture. files are names and contents.
func setup(t *testing.T, files ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	f.spec = job.Spec{Name: "test", Pool: "pool", Files: &job.Files{}, Output: f.path("out.jsonl"), Backoff: time.Millisecond}
	for i := 0; i < len(files); i += 2 {
		f.spec.Files.Input = append(f.spec.Files.Input, f.write(files[i], files[i+1]))
	}
	f.spec = f.spec.WithDefaults()
	f.ref = wire.Ref{Job: f.spec.Name, Run: "run-1", Store: f.spec.Store}
	return f
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) write(name, content string) string {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.path(name), []byte(content), 0o600))
	return f.path(name)
}

func (f *fixture) survey() Survey {
	f.t.Helper()
	return taken(f.t, f.spec, "")
}

// draw draws a sample of so many items.
func (f *fixture) draw(items int) *Drawn {
	f.t.Helper()
	d, err := Draw(f.t.Context(), &store.Access{}, f.survey(), f.spec, SampleOptions{Items: items, Parallel: 2, Seed: 7})
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		require.NoError(f.t, d.Close())
		require.NoDirExists(f.t, d.dir)
	})
	return d
}

// page plans a page as a job's worker does.
func (f *fixture) page(in wire.PlanInput) wire.PlanResult {
	f.t.Helper()
	if f.acts == nil {
		f.acts = activities.New(activities.Options{Access: &store.Access{}})
		f.t.Cleanup(f.acts.Close)
	}
	result, err := f.acts.Plan(f.t.Context(), in)
	require.NoError(f.t, err)
	return result
}

// plan plans the whole job and returns its batches.
func (f *fixture) plan() []wire.Batch {
	f.t.Helper()
	in := wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 100_000}
	result := f.page(in)
	require.True(f.t, result.Done)
	batches, err := wire.DecodePage(result.Page)
	require.NoError(f.t, err)
	return batches
}
