package child

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What has been written is known to the byte at any moment, while it is being read (T5).
func TestCounted_Written(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	c := NewCountedPipe(r)
	read := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, c)
		read <- n
	}()
	random := seeded(t, 5)
	total := int64(0)
	for range 20_000 {
		n, err := w.Write(make([]byte, 1+random.IntN(300)))
		require.NoError(t, err)
		total += int64(n)
		require.Equal(t, total, c.Written())
	}
	require.True(t, within(c.Drained))
	require.NoError(t, w.Close())
	require.Equal(t, total, <-read)
}

func TestCounted_Drained(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	c := NewCountedPipe(r)
	require.False(t, c.Drained(), "nobody waits for more")
	_, err = w.WriteString("frame")
	require.NoError(t, err)
	buf := make([]byte, 10)
	n, err := c.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "frame", string(buf[:n]))
	require.False(t, c.Drained(), "it may not have been handled")
	require.NoError(t, r.SetDeadline(time.Now()))
	_, err = c.Read(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, r.SetDeadline(time.Time{}))
	require.NoError(t, w.Close())
	_, err = c.Read(buf)
	require.ErrorIs(t, err, io.EOF)
	require.EqualValues(t, 5, c.Written())
}
