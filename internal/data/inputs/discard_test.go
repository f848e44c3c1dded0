package inputs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// drops is an access whose inputs break off after so many bytes, as often as the test wants.
type drops struct {
	store.Access
	after int64
	times int
}

func (a *drops) OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	r, err := a.Access.OpenInput(ctx, url, offset, length)
	if err != nil || a.times == 0 {
		return r, err
	}
	left := a.after
	return struct {
		io.Reader
		io.Closer
	}{readerFunc(func(p []byte) (int, error) {
		if left == 0 {
			a.times--
			return 0, &store.OpError{Op: "reading", Where: url, Err: syscall.ECONNRESET}
		}
		n, err := r.Read(p[:min(int64(len(p)), left)])
		left -= int64(n)
		return n, err
	}), r}, nil
}

// tight is a directory on a disk that holds so many bytes of objects.
type tight struct {
	store.Dir
	room int64
}

func (d tight) Create(ctx context.Context, key string) (store.Writer, error) {
	w, err := d.Dir.Create(ctx, key)
	return &tightWriter{Writer: w, ctx: ctx, d: d}, err
}

type tightWriter struct {
	store.Writer
	ctx   context.Context
	d     tight
	bytes int64
}

func (w *tightWriter) Write(p []byte) (int, error) {
	w.bytes += int64(len(p))
	return w.Writer.Write(p)
}

func (w *tightWriter) Commit() error {
	used := w.bytes
	for info, err := range w.d.List(w.ctx, "") {
		if err != nil {
			return err
		}
		used += info.Size
	}
	if used > w.d.room {
		w.Abort()
		return &store.OpError{Op: "writing", Where: "disk", Err: syscall.ENOSPC}
	}
	return w.Writer.Commit()
}

// copied has a directory with a compressed input, which takes the whole first page to copy.
func copied(t *testing.T) (dir store.Dir, content string, access *drops, in wire.PlanInput) {
	t.Helper()
	root := t.TempDir()
	inputs, err := (&store.Access{}).Open(t.Context(), root+"/in")
	require.NoError(t, err)
	content = strings.Repeat("a line of text, with more to come\n", 20*int(SpoolChunk)/34)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = io.WriteString(z, content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, inputs.Put(t.Context(), "in.txt.gz", packed.Bytes()))
	dir, err = (&store.Access{}).Open(t.Context(), root+"/store")
	require.NoError(t, err)
	in = wire.PlanInput{
		Ref: wire.Ref{Job: "job", Run: "run"}, Batches: 600,
		Spec: job.Spec{Files: &job.Files{Input: []string{root + "/in/in.txt.gz"}}, Format: "text", BatchItems: 10}.WithDefaults(),
	}
	return dir, content, &drops{after: int64(packed.Len()) - 1, times: 1}, in
}

// keysOf lists a directory.
func keysOf(t *testing.T, dir store.Dir) (keys []string) {
	t.Helper()
	for info, err := range dir.List(t.Context(), "") {
		require.NoError(t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

// An input's host drops the connection when the copy is nearly complete, and the disk has no room for two copies: the
// next execution has the room of the first one.
func TestPlan_FailedFirstPageLeavesNoCopy(t *testing.T) {
	t.Parallel()
	dir, content, access, in := copied(t)
	n := New(access, nil)
	t.Cleanup(n.Close)
	disk := tight{dir, int64(len(content)) * 3 / 2}
	for range 3 {
		access.times = 1
		_, err := n.Plan(t.Context(), disk, in, n)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Empty(t, keysOf(t, dir))
	}
	in.Batches = 4
	result, err := n.Plan(t.Context(), disk, in, n)
	require.NoError(t, err)
	require.False(t, result.Done)

	// A later page that fails leaves what was accepted.
	in.Ref.Sources = result.Sources
	for !result.Done {
		before := keysOf(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		in.From = result.Next
		_, err := n.Plan(ctx, disk, in, n)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, before, keysOf(t, dir))
		result, err = n.Plan(t.Context(), disk, in, n)
		require.NoError(t, err)
	}
	table, err := n.Table(t.Context(), dir, in.Ref.Sources)
	require.NoError(t, err)
	got, err := io.ReadAll(OpenSpool(t.Context(), dir, table.Sources[0].Spool, 0, -1))
	require.NoError(t, err)
	require.Equal(t, content, string(got))
}

// The first page is given up, by a stop or because its worker was thought dead: what it has copied goes, too.
func TestPlan_CancelledFirstPageLeavesNoCopy(t *testing.T) {
	t.Parallel()
	dir, _, access, in := copied(t)
	access.times = 0
	n := New(access, nil)
	t.Cleanup(n.Close)
	ctx, cancel := context.WithCancel(t.Context())
	stopping := cancelling{dir, cancel}
	_, err := n.Plan(ctx, stopping, in, n)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, keysOf(t, dir))
}

// cancelling is a directory in which a context is cancelled once the fifth chunk is written.
type cancelling struct {
	store.Dir
	cancel func()
}

func (d cancelling) Create(ctx context.Context, key string) (store.Writer, error) {
	if strings.HasSuffix(key, "/00000005") {
		d.cancel()
	}
	return d.Dir.Create(ctx, key)
}

// A resumed job has the table of the run before: it and its copies stay, whatever fails.
func TestPlan_FailedFirstPageLeavesWhatIsTakenOver(t *testing.T) {
	t.Parallel()
	dir, _, access, in := copied(t)
	access.times = 0
	n := New(access, nil)
	t.Cleanup(n.Close)
	in.Batches = 3
	result, err := n.Plan(t.Context(), dir, in, n)
	require.NoError(t, err)
	batches, err := wire.DecodePage(result.Page)
	require.NoError(t, err)
	in.Ref.Sources = result.Sources
	head, err := ledger.WriteManifest(t.Context(), dir, in.Ref, 0, nil, []wire.Entry{{Batch: batches[0], OK: batches[0].Count}}, wire.Besides{})
	require.NoError(t, err)
	before := keysOf(t, dir)

	in.Ref, in.Resume, in.Batches = wire.Ref{Job: "job", Run: "run-2"}, []string{head}, 600
	access.times = 1
	again := New(access, nil)
	t.Cleanup(again.Close)
	_, err = again.Plan(t.Context(), dir, in, again)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Subset(t, keysOf(t, dir), before)
	_, err = again.Plan(t.Context(), dir, in, again)
	require.NoError(t, err)
}

// The copy of the standard input belongs to the process: the next execution goes on with it.
func TestPlan_FailedFirstPageLeavesTheStandardInput(t *testing.T) {
	t.Parallel()
	dir, content, access, in := copied(t)
	in.Spec.Files.Input = append([]string{"-"}, in.Spec.Files.Input...)
	in.Spec.Files.Flush = limits.DefaultFlush
	typed := strings.Repeat("typed\n", 200)
	n := New(access, strings.NewReader(typed))
	t.Cleanup(n.Close)
	var all []wire.Batch
	failed := 0
	for {
		result, err := n.Plan(t.Context(), dir, in, n)
		if err != nil {
			require.ErrorIs(t, err, syscall.ECONNRESET)
			for _, key := range keysOf(t, dir) {
				require.Contains(t, key, "run/stdin-")
			}
			require.NotEmpty(t, keysOf(t, dir))
			failed++
			continue
		}
		batches, err := wire.DecodePage(result.Page)
		require.NoError(t, err)
		all, in.From = append(all, batches...), result.Next
		if result.Sources != "" {
			in.Ref.Sources = result.Sources
		}
		if result.Done {
			break
		}
	}
	require.Equal(t, 1, failed)
	require.EqualValues(t, strings.Count(typed+content, "\n"), all[len(all)-1].End())
}

// A table that cannot be written leaves nothing either.
func TestPlan_FailedTableLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, _, access, in := copied(t)
	access.times = 0
	n := New(access, nil)
	t.Cleanup(n.Close)
	_, err := n.Plan(t.Context(), noTable{dir}, in, n)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Empty(t, keysOf(t, dir))
}

// noTable is a directory whose answer to the write of a table gets lost.
type noTable struct{ store.Dir }

func (d noTable) Put(ctx context.Context, key string, data []byte) error {
	return errors.Join(d.Dir.Put(ctx, key, data), &store.OpError{Op: "writing", Where: key, Err: syscall.ECONNRESET})
}
