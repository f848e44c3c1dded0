package records

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-run/stint/internal/wire"
)

// The compressions.
const (
	None wire.Compression = ""    // the bytes as they are
	Gzip wire.Compression = "gz"  // RFC 1952, one member or several
	Zstd wire.Compression = "zst" // RFC 8878, one frame or several
)

// maxZstdWindow is the largest distance a zstd stream may refer back over, in bytes: that of
// `zstd --ultra -22` and of `--long`. The decoder holds about this much memory at most.
const maxZstdWindow = 128 << 20

// CompressionOf returns the compression by the path's extension, .gz or .zst in upper or lower case.
func CompressionOf(name string) wire.Compression {
	switch strings.ToLower(path.Ext(name)) {
	case ".gz":
		return Gzip
	case ".zst":
		return Zstd
	}
	return None
}

// Decompress returns a reader of r's bytes uncompressed. It decodes in the caller's goroutine, in
// bounded memory, and may read r past the end of the compressed data. Close frees the decoder and
// leaves r alone. For a compressed source that is empty or ends too early, the error is
// io.ErrUnexpectedEOF, here or while reading.
func Decompress(r io.Reader, c wire.Compression) (io.ReadCloser, error) {
	if c == None {
		return io.NopCloser(r), nil
	}
	counted := &counter{Reader: r}
	buffered := bufio.NewReader(counted)
	if _, err := buffered.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading %s data: it is empty or truncated: %w", c, err)
	}
	switch c {
	case Gzip:
		return newMembers(buffered, counted)
	case Zstd:
		if begins, _ := buffered.Peek(len(zstdMagic)); len(begins) < len(zstdMagic) && !bytes.HasPrefix(zstdMagic, begins) {
			return nil, notZstd(zstd.ErrMagicMismatch) // the decoder would only say that they are short
		}
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, fmt.Errorf("starting zstd decoder: %w", err)
		}
		return &windowed{ReadCloser: z.IOReadCloser()}, nil
	}
	return nil, fmt.Errorf("unknown compression %q: use gz or zst", c)
}

// zstdMagic begins a frame.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

func notZstd(err error) error {
	return fmt.Errorf("it is not zstd data: take .zst off its name: %w", err)
}

// windowed is a zstd decoder that names its limit, and what is wrong with the data.
type windowed struct {
	io.ReadCloser
	some bool // bytes were read
}

func (w *windowed) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.some = w.some || n > 0
	switch {
	case errors.Is(err, zstd.ErrMagicMismatch) && w.some:
		err = fmt.Errorf("something that is no zstd data follows the zstd data: %w", err)
	case errors.Is(err, zstd.ErrMagicMismatch):
		err = notZstd(err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("it is truncated: the zstd data end too early: %w", err)
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = fmt.Errorf("the zstd data need a window above the limit of %d MiB; compress them again with --long=27 or less: %w", maxZstdWindow>>20, err)
	}
	return n, err
}
