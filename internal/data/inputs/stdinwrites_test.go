package inputs

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stretchr/testify/require"
)

// writesDir counts the bytes that are written.
type writesDir struct {
	store.Dir
	written int
}

func (d *writesDir) Put(ctx context.Context, key string, data []byte) error {
	if !strings.Contains(key, "sources") {
		d.written += len(data)
	}
	return d.Dir.Put(ctx, key, data)
}

func (d *writesDir) Append(ctx context.Context, key string, at int64, data []byte) error {
	d.written += len(data)
	return d.Dir.(interface {
		Append(ctx context.Context, key string, at int64, data []byte) error
	}).Append(ctx, key, at, data)
}

// However slowly the standard input comes, about as much is written as comes.
func TestD47_ASlowInputIsWrittenOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t, root, "text")
		counted := &writesDir{Dir: f.dir}
		f.dir = counted
		defer f.inputs.Close()
		text := ""
		for range 50 {
			piece := strings.Repeat("line\n", 200)
			text += piece
			go io.WriteString(f.to, piece)
			require.NoError(t, f.plan(t.Context()))
		}
		require.NoError(t, f.to.Close())
		require.NoError(t, f.plan(t.Context()))
		require.Equal(t, text, f.content())
		require.Less(t, counted.written, 2*len(text))
	})
}
