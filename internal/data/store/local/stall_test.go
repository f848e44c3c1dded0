package local

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/store/object"
)

// What the meter knows of a read and of a write that hang, of a pipe here.
func TestStall(t *testing.T) {
	t.Parallel()
	stuck := func(m *stall.Meter, want string) {
		t.Helper()
		require.Eventually(t, func() bool { return m.Stuck(time.Millisecond) != nil }, time.Minute, time.Millisecond)
		require.ErrorContains(t, m.Stuck(time.Millisecond), want)
	}
	m := stall.NewMeter()
	ctx := stall.With(t.Context(), m)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	ended := make(chan error, 1)

	file := &File{f: r, where: "in", left: 1 << 20, op: stall.New(ctx, "reading", "in")}
	go func() { _, err := file.Read(make([]byte, 10)); ended <- err }()
	stuck(m, "reading in: nothing has happened")
	_, err = w.WriteString("x")
	require.NoError(t, err)
	require.NoError(t, <-ended)
	require.Nil(t, m.Stuck(0), "no byte is waited for")

	out := newWriter(ctx, w, "", "out", object.WriteOptions{})
	out.out.disk.cached = true
	go func() { _, err := out.Write(make([]byte, 32<<20)); ended <- err }()
	stuck(m, "writing out: nothing has happened")
	go func() { _, _ = io.Copy(io.Discard, r) }()
	require.NoError(t, <-ended)
	require.Nil(t, m.Stuck(0))
	out.Abort()
	require.NoError(t, file.Close())
}

// Nothing is left with the meter of what has ended.
func TestStall_EndsWithTheFile(t *testing.T) {
	t.Parallel()
	m := stall.NewMeter()
	ctx := stall.With(t.Context(), m)
	dir, _ := setupLocal(t)
	require.NoError(t, dir.Put(ctx, "a/b", []byte("x")))
	w, err := dir.Create(ctx, "c")
	require.NoError(t, err)
	w.Abort()
	_, err = dir.Get(ctx, "a/b")
	require.NoError(t, err)
	_, err = dir.Stat(ctx, "a/b")
	require.NoError(t, err)
	require.Len(t, listAll(t, dir), 1)
	require.NoError(t, dir.Delete(ctx, "a/b"))
	require.Zero(t, m.InHand())
}
