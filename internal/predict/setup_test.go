package predict

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/calls/callstest"
	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a job in a new directory, with a predictor of it.
type fixture struct {
	t       *testing.T
	dir     string
	spec    job.Spec
	ref     ledger.Ref
	next    inputs.Cursor
	handler calls.Handler
	slots   calls.Slots
	acts    *activities.Activities // that plan; nil until needed
}

// setup returns a fixture whose handler answers each item with itself. files are names and contents.
func setup(t *testing.T, files ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), handler: &callstest.Handler{}}
	f.spec = job.Spec{Name: "test", Pool: "pool", Output: f.path("out.jsonl"), Backoff: time.Millisecond}
	for i := 0; i < len(files); i += 2 {
		f.spec.Input = append(f.spec.Input, f.write(files[i], files[i+1]))
	}
	f.spec = f.spec.WithDefaults()
	f.ref = ledger.Ref{Job: f.spec.Name, Run: "run-1", Store: f.spec.Store}
	return f
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) write(name, content string) string {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.path(name), []byte(content), 0o600))
	return f.path(name)
}

// serve replaces the handler.
func (f *fixture) serve(h calls.Handler) { f.handler = h }

func (f *fixture) predictor() *Predictor {
	p := New(Options{Access: &store.Access{}, Handler: f.handler, Slots: f.slots})
	f.t.Cleanup(p.Close)
	return p
}

// page plans a page as a job's worker does.
func (f *fixture) page(in inputs.PlanInput) inputs.PlanResult {
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
	in := inputs.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 100_000}
	result := f.page(in)
	require.True(f.t, result.Done)
	batches, err := inputs.DecodePage(result.Page)
	require.NoError(f.t, err)
	return batches
}
