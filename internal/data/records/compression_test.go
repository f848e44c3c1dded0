package records

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

func gzipped(t *testing.T, text string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zstandard(t *testing.T, text string, options ...zstd.EOption) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, append(options, zstd.WithEncoderConcurrency(1))...)
	require.NoError(t, err)
	_, err = io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestDecompress(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("some text\n", 100_000)
	for name, c := range map[string]struct {
		data []byte
		as   wire.Compression
		want string
	}{
		"none":           {[]byte(long), None, long},
		"none, empty":    {nil, None, ""},
		"gzip":           {gzipped(t, long), Gzip, long},
		"gzip of none":   {gzipped(t, ""), Gzip, ""},
		"gzip, members":  {append(gzipped(t, "a\nb"), gzipped(t, "c\n")...), Gzip, "a\nbc\n"},
		"zstd":           {zstandard(t, long), Zstd, long},
		"zstd of none":   {zstandard(t, "", zstd.WithZeroFrames(true)), Zstd, ""},
		"zstd, frames":   {append(zstandard(t, "a\nb"), zstandard(t, "c\n")...), Zstd, "a\nbc\n"},
		"zstd, 128 MiB":  {zstandard(t, long, zstd.WithWindowSize(128<<20)), Zstd, long},
		"gzip of binary": {gzipped(t, "\x00\xff"), Gzip, "\x00\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Decompress(bytes.NewReader(c.data), c.as)
			require.NoError(t, err)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			require.NoError(t, r.Close())
		})
	}
}

func TestDecompressBroken(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789 some text\n", 1000)
	gz, zst := gzipped(t, text), zstandard(t, text)
	for name, c := range map[string]struct {
		data []byte
		as   wire.Compression
		want error // nil: any
	}{
		"gzip, empty":   {nil, Gzip, io.ErrUnexpectedEOF},
		"zstd, empty":   {nil, Zstd, io.ErrUnexpectedEOF},
		"gzip, cut off": {gz[:len(gz)/2], Gzip, io.ErrUnexpectedEOF},
		"zstd, cut off": {zst[:len(zst)/2], Zstd, io.ErrUnexpectedEOF},
		"gzip, garbage": {[]byte("no gzip at all, is it?"), Gzip, gzip.ErrHeader},
		"zstd, garbage": {[]byte("no zstd at all, is it?"), Zstd, zstd.ErrMagicMismatch},
		"gzip, trailer": {append(gzipped(t, "a"), "garbage, ten bytes"...), Gzip, gzip.ErrHeader},
		"unknown":       {[]byte("x"), "bz2", nil},
		"window of 1 GiB": {append([]byte{0x28, 0xB5, 0x2F, 0xFD, 0, 20 << 3}, make([]byte, 100)...), Zstd,
			zstd.ErrWindowSizeExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Decompress(bytes.NewReader(c.data), c.as)
			if err == nil {
				defer r.Close()
				_, err = io.Copy(io.Discard, r)
			}
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
}

// X5: a refusal names the limit, and says what to do.
func TestDecompress_NamesTheLimit(t *testing.T) {
	t.Parallel()
	frame := append([]byte{0x28, 0xB5, 0x2F, 0xFD, 0, 20 << 3}, make([]byte, 100)...) // its window is 1 GiB
	r, err := Decompress(bytes.NewReader(frame), Zstd)
	require.NoError(t, err)
	defer r.Close()
	_, err = io.ReadAll(r)
	require.ErrorContains(t, err, "above the limit of 128 MiB; compress them again with --long=27 or less")
}

func TestDecompressLeavesSourceOpen(t *testing.T) {
	t.Parallel()
	for c, data := range map[wire.Compression][]byte{
		None: []byte("a"), Gzip: gzipped(t, "a"), Zstd: zstandard(t, "a"),
	} {
		source := &closeCounter{Reader: bytes.NewReader(data)}
		r, err := Decompress(source, c)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Zero(t, source.closed)
	}
}

type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }
