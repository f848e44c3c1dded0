package child

import (
	"bytes"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bulkPipe returns our end of a pipe, and the child's.
func bulkPipe(t *testing.T, toChild bool) (*quiet, *os.File) {
	t.Helper()
	ours, childs, err := newBulkPipe(toChild)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ours.Close(), childs.Close() })
	q, ok := ours.(*quiet)
	if !ok {
		t.Skip("large pipes are not allowed here: they are polled")
	}
	return q, childs
}

func (q *quiet) isPolled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.polled != nil
}

// All bytes that go in come out, however many, and if the other side is quick nobody polls.
func TestQuiet_Conveys(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("0123456789abcde\n"), 300_000)
	toChild, childsIn := bulkPipe(t, true)
	fromChild, childsOut := bulkPipe(t, false)
	go func() {
		_, _ = io.CopyBuffer(struct{ io.Writer }{childsOut}, struct{ io.Reader }{childsIn}, make([]byte, 8<<10))
		_ = childsOut.Close()
	}()
	written := make(chan error, 1)
	go func() {
		n, err := toChild.Write(want)
		if n != len(want) && err == nil {
			err = io.ErrShortWrite
		}
		written <- err
		_ = toChild.Close()
	}()
	got, err := io.ReadAll(fromChild)
	require.NoError(t, err)
	require.NoError(t, <-written)
	require.True(t, bytes.Equal(want, got))
	_, err = fromChild.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// A slow side is waited for without naps.
func TestQuiet_Polls(t *testing.T) {
	t.Parallel()
	t.Run("reading", func(t *testing.T) {
		t.Parallel()
		q, childs := bulkPipe(t, false)
		go func() {
			for !q.isPolled() {
				time.Sleep(time.Millisecond)
			}
			_, _ = childs.Write([]byte("late"))
			_ = childs.Close()
		}()
		got, err := io.ReadAll(q)
		require.NoError(t, err)
		require.Equal(t, "late", string(got))
	})
	t.Run("writing", func(t *testing.T) {
		t.Parallel()
		q, childs := bulkPipe(t, true)
		want := bytes.Repeat([]byte("x"), 3*pipeSize)
		got := make(chan []byte)
		go func() {
			for !q.isPolled() {
				time.Sleep(time.Millisecond)
			}
			all, _ := io.ReadAll(childs)
			got <- all
		}()
		_, err := q.Write(want)
		require.NoError(t, err)
		require.NoError(t, q.Close())
		require.True(t, bytes.Equal(want, <-got))
	})
}

// A deadline ends a read or write that would wait, before it polls and after.
func TestQuiet_Deadline(t *testing.T) {
	t.Parallel()
	for name, polled := range map[string]bool{"napping": false, "polled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, childs := bulkPipe(t, false)
			if polled {
				_, _, err := q.state(true)
				require.NoError(t, err)
			}
			_, err := childs.Write([]byte("before"))
			require.NoError(t, err)
			buf := make([]byte, 100)
			n, err := q.Read(buf)
			require.NoError(t, err)
			require.Equal(t, "before", string(buf[:n]))
			require.NoError(t, q.SetDeadline(time.Now()))
			_, err = q.Read(buf)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)

			w, _ := bulkPipe(t, true)
			require.NoError(t, w.SetDeadline(time.Now()))
			if polled {
				_, _, err := w.state(true)
				require.NoError(t, err)
			}
			n, err = w.Write(make([]byte, 2*pipeSize))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Less(t, n, 2*pipeSize)
		})
	}
}

func TestQuiet_Ends(t *testing.T) {
	t.Parallel()
	q, childs := bulkPipe(t, true)
	require.NoError(t, childs.Close())
	_, err := q.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.Close(), os.ErrClosed)
	_, err = q.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrClosed)
	require.NoError(t, q.SetDeadline(time.Now()))
	_, err = q.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrClosed)
}

// The large pipes of a process take no more than half of the user's quota: others are polled, and are as
// large as any.
func TestQuiet_LeavesTheQuotaAlone(t *testing.T) { // not parallel: it uses up what all pipes share
	used := largeLimit() - large.Load() - pipeSize
	require.Positive(t, used)
	large.Add(used)
	defer large.Add(-used)
	first, _ := bulkPipe(t, true)
	ours, childs, err := newBulkPipe(true)
	require.NoError(t, err)
	_, isFile := ours.(*os.File)
	require.True(t, isFile, "the quota is used up")
	require.NoError(t, ours.Close())
	require.NoError(t, childs.Close())
	require.NoError(t, first.Close())
	again, _ := bulkPipe(t, false) // skips the test unless what was closed is free again
	require.NoError(t, again.Close())
}
