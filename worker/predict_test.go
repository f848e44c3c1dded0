package worker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// predict predicts a job over n lines of text.
func (f *fixture) predict(h Handler, n, sample int) (predict.Prediction, error) {
	f.t.Helper()
	input := filepath.Join(f.dir, "in.txt")
	require.NoError(f.t, os.WriteFile(input, []byte(strings.Repeat("line\n", n)), 0o666))
	spec := job.Spec{Name: "plan", Pool: "plan", Input: []string{input}, Store: "nowhere"}.WithDefaults()
	f.options.Slots, f.options.Logger = 2, slog.New(slog.DiscardHandler)
	return Predict(f.t.Context(), h, f.options, spec, PredictOptions{Items: sample, Workers: 3, Seed: 1})
}

func TestPredict_EveryKindOfHandler(t *testing.T) {
	t.Parallel()
	echo := func(_ context.Context, text string) (string, error) { return text, nil }
	all := func(_ context.Context, texts []string) ([]string, error) { return texts, nil }
	for name, handler := range map[string]func(*fixture) Handler{
		"each":    func(*fixture) Handler { return Each(echo) },
		"batch":   func(*fixture) Handler { return Batch(all) },
		"filter":  func(*fixture) Handler { return Exec("cat") },
		"program": func(f *fixture) Handler { return f.program("yes") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			p, err := f.predict(handler(f), 500, 100)
			require.NoError(t, err)
			require.EqualValues(t, 500, p.Items)
			require.Equal(t, 100, p.Sample.Items)
			require.EqualValues(t, 100, p.Sample.OK, "%+v", p.Sample.FirstError)
			require.Equal(t, 6, p.Parallel)
			require.Positive(t, p.Batches)
			require.Positive(t, p.CallItems)
			require.LessOrEqual(t, *p.Seconds.Low, p.Seconds.Value)
			require.GreaterOrEqual(t, *p.Seconds.High, p.Seconds.Value)
		})
	}
}

func TestPredict_HandlersThatFail(t *testing.T) {
	t.Parallel()
	fails := func(context.Context, string) (string, error) { return "", errors.New("no such colour") }
	f := setup(t)
	p, err := f.predict(Each(fails), 50, 10)
	require.NoError(t, err)
	require.EqualValues(t, 10, p.Sample.Failed)
	require.Equal(t, "no such colour", p.Sample.FirstError.Error.Message)

	_, err = f.predict(Exec("there-is-no-such-program"), 50, 10)
	require.ErrorContains(t, err, "there is no such program")
	_, err = f.predict(f.program("not ready"), 50, 10)
	require.ErrorContains(t, err, "model.bin is missing")
	_, err = f.predict(Each(fails), 50, 0)
	require.ErrorContains(t, err, "use 1 or more")
}

// If programs die again and again, the error is theirs.
func TestPredict_SlotsThatAreOut(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Restarts = NoRestarts
	input := filepath.Join(f.dir, "exits.txt")
	require.NoError(t, os.WriteFile(input, []byte(strings.Repeat("exit 3\n", 20)), 0o666))
	f.options.Slots, f.options.Logger = 1, slog.New(slog.DiscardHandler)
	spec := job.Spec{Name: "plan", Pool: "plan", Input: []string{input}, Store: "nowhere"}.WithDefaults()
	_, err := Predict(t.Context(), f.program("yes"), f.options, spec, PredictOptions{Items: 20})
	require.ErrorContains(t, err, "slot 0 is out")
	require.ErrorContains(t, err, "last words")
}

func TestPace_Settles(t *testing.T) {
	t.Parallel()
	p := execPace(Options{})
	require.Equal(t, execItems, p.Settled(0.001, 0))
	require.Equal(t, 4999, p.Settled(0.001, 0.001))
	require.Equal(t, execItems, p.Settled(0.001, 1e-7))
	require.Equal(t, 1, p.Settled(0, 100))
	require.Equal(t, 1, p.Settled(100, 1))
}
