package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// pipeline makes a pipeline of two pools over the lines.
func (b *box) pipeline(lines ...string) job.Spec {
	b.t.Helper()
	spec := b.spec(lines...)
	spec.Stages = []job.Stage{{Name: "up", Pool: "letters"}, {Name: "mark", Pool: "marks"}}
	return spec
}

var mark = worker.Each(func(_ context.Context, item string) (string, error) { return item + "!", nil })

func TestPools_P1_RunAndRedrive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	options := b.options()
	options.Pools = map[string]local.Pool{"letters": {}, "marks": {Handler: mark}}
	report, err := local.Run(t.Context(), b.pipeline("a", "bad", "b"), upper, options)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.OK)
	require.EqualValues(t, 1, report.Failed)
	b.requireOutput("\"A!\"\n\"B!\"\n")

	options.Pools["letters"] = local.Pool{Handler: mark}
	_, err = local.Redrive(t.Context(), "job", worker.Handler{}, jobs.RedriveOptions{}, options)
	require.NoError(t, err)
	b.requireOutput("\"A!\"\n\"bad!!\"\n\"B!\"\n")
	delete(options.Pools, "marks")
	_, err = local.Redrive(t.Context(), "job", worker.Handler{}, jobs.RedriveOptions{}, options)
	require.ErrorContains(t, err, "pool marks of job job has no entry: add it to Options.Pools")
}

func TestPools_Refused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		change     func(*job.Spec, *local.Options)
	}{
		{"none", "pool letters of job job has no entry", func(_ *job.Spec, o *local.Options) { o.Pools = nil }},
		{"one that no stage has", "no stage of job job uses pool more", func(_ *job.Spec, o *local.Options) { o.Pools["more"] = local.Pool{Handler: mark} }},
		{"no handler", "pool marks has no handler", func(_ *job.Spec, o *local.Options) { o.Pools["marks"] = local.Pool{} }},
		{"a hook of another one", "pool other of job job has no entry", func(s *job.Spec, _ *local.Options) { s.Init = []string{"other/warm"} }},
		{"no stages", "has no stages: leave Options.Pools out", func(s *job.Spec, _ *local.Options) { s.Stages = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			spec, options := b.pipeline("a"), b.options()
			options.Pools = map[string]local.Pool{"letters": {Handler: upper}, "marks": {Handler: mark}}
			c.change(&spec, &options)
			_, err := local.Run(t.Context(), spec, worker.Handler{}, options)
			require.ErrorContains(t, err, c.want)
			require.NoDirExists(t, options.State)
		})
	}
}

// A job whose run was aborted shares a state with another one, whose pools have the same names. Its items never reach
// the other job's handlers, and it goes on later.
func TestPools_BelongToTheirJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	abort := make(chan struct{})
	var once sync.Once
	hangs := worker.Each(func(ctx context.Context, item string) (string, error) {
		once.Do(func() { close(abort) })
		<-ctx.Done()
		return item, ctx.Err()
	})
	options := b.options()
	options.Worker.Drain = 1
	options.Abort = abort
	options.Pools = map[string]local.Pool{"letters": {Handler: upper}, "marks": {Handler: hangs}}
	first := b.pipeline("a", "b", "c")
	_, err := local.Run(t.Context(), first, worker.Handler{}, options)
	require.Error(t, err)

	foreign := worker.Each(func(_ context.Context, item string) (string, error) {
		if item != "other" {
			t.Errorf("the handler of another job got %q", item)
		}
		return item, nil
	})
	input := filepath.Join(b.dir, "other.txt")
	require.NoError(t, os.WriteFile(input, []byte("other\n"), 0o600))
	other := first
	other.Name, other.Files.Input, other.Output = "second", []string{input}, filepath.Join(b.dir, "second.txt")
	options.Abort = nil
	options.Pools = map[string]local.Pool{"letters": {Handler: foreign}, "marks": {Handler: foreign}}
	report, err := local.Run(t.Context(), other, worker.Handler{}, options)
	require.NoError(t, err)
	require.EqualValues(t, 1, report.OK)

	options.Pools = map[string]local.Pool{"letters": {Handler: upper}, "marks": {Handler: mark}}
	report, err = local.Run(t.Context(), first, worker.Handler{}, options)
	require.NoError(t, err)
	require.EqualValues(t, 3, report.OK)
	b.requireOutput(strings.Join([]string{`"A!"`, `"B!"`, `"C!"`, ""}, "\n"))
}
