package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// refuse is a preprocessing that turns what it does not refuse into a JSON object.
func refuse(_ context.Context, text string) (map[string]string, error) {
	switch text {
	case "refuse":
		return nil, errors.New("not wanted")
	case "drop":
		return nil, Drop
	case "panic":
		panic("oh")
	}
	return map[string]string{"text": text}, nil
}

// B5: an item that is refused is recorded, does not reach the handler and does not count in its calls.
func TestPreprocess(t *testing.T) {
	t.Parallel()
	echo := func(_ context.Context, v map[string]string) (map[string]string, error) {
		if v["text"] == "error" {
			return nil, errors.New("from the handler")
		}
		return v, nil
	}
	var sizes []int
	for name, h := range map[string]Handler{
		"each": Each(echo),
		"batch": Batch(func(ctx context.Context, all []map[string]string) ([]map[string]string, error) {
			sizes = append(sizes, len(all))
			failed := ItemErrors{}
			for i, v := range all {
				if _, err := echo(ctx, v); err != nil {
					failed[i] = err
				}
			}
			if len(failed) > 0 {
				return all, failed
			}
			return all, nil
		}),
		"exec": Exec("sed", "s/error/failed/"),
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			f.options.Slots, f.batch = 1, 1000
			o := f.run(Preprocess(refuse, h), "in.txt", lines("a", "refuse", "b", "drop", "error", "panic", "c"))
			want := []int64{1, 4, 5}
			if name == "exec" {
				want = []int64{1, 5}
				require.Contains(t, o.output, `{"text":"failed"}`)
			}
			require.Equal(t, want, o.items())
			require.EqualValues(t, 1, o.totals.Dropped)
			require.Equal(t, 3+len([]int64{1, 4, 5})-len(want), strings.Count(o.output, "text"))
			for _, failure := range o.failures {
				switch failure.Item {
				case 1:
					require.Equal(t, "not wanted", failure.Error.Message)
				case 4:
					require.Equal(t, "from the handler", failure.Error.Message)
				case 5:
					require.Equal(t, "panic", failure.Error.Type)
				}
			}
		})
	}
	require.Equal(t, []int{4}, sizes)
}

// A preprocessing that hangs costs its item, and the handler's call is not disturbed by it.
func TestPreprocess_Hangs(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.options.Restarts, f.limits.Attempts, f.limits.Timeout = 100, 1, time.Second
		release := make(chan struct{})
		defer close(release)
		h := Preprocess(func(_ context.Context, text string) (string, error) {
			if text == "hang" {
				<-release
			}
			return text, nil
		}, Each(func(_ context.Context, text string) (string, error) { return text, nil }))
		o := f.run(h, "in.txt", lines("a", "b", "hang", "c"))
		require.Equal(t, lines(`"a"`, `"b"`, `"c"`), o.output)
		require.Equal(t, job.KindExpired, o.only(t).Kind)
	})
}

func TestPreprocess_ItemAttempts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.ItemAttempts = 3
	o := f.run(Preprocess(refuse, Exec("cat")), "in.txt", lines("a", "refuse"))
	require.Equal(t, 3, o.only(t).Attempts)
}
