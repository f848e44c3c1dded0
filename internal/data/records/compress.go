package records

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
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

// memberBytes is how many bytes a member (gzip) or frame (zstd) has at least, uncompressed, unless it is the last one:
// smaller ones compress badly.
const memberBytes = 256 << 10

// Compressor compresses what is written to it, in members or frames that can be read one by one and joined. It is not
// safe for concurrent use.
type Compressor struct {
	to      io.Writer
	encoder interface {
		io.WriteCloser
		Reset(io.Writer)
	}
	begun int64 // bytes of the present member
	any   bool  // a member has been begun
}

// NewCompressor returns a Compressor that writes to w. The caller must end it with Close. c is Gzip or Zstd.
func NewCompressor(w io.Writer, c wire.Compression) *Compressor {
	z := &Compressor{to: w}
	switch c {
	case Gzip:
		z.encoder = gzip.NewWriter(w)
	case Zstd:
		encoder, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(fmt.Errorf("options of zstd: %w", err)) // they are constants
		}
		z.encoder = encoder
	default:
		panic(fmt.Sprintf("unknown compression %q", c))
	}
	return z
}

// Write compresses p. No bytes begin no member.
func (z *Compressor) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := z.encoder.Write(p)
	z.begun += int64(n)
	z.any = true
	return n, err
}

// EndPiece ends the member, if it is long enough: another one begins with the next Write.
func (z *Compressor) EndPiece() error {
	if z.begun < memberBytes {
		return nil
	}
	return z.end()
}

func (z *Compressor) end() error {
	if err := z.encoder.Close(); err != nil {
		return err
	}
	z.encoder.Reset(z.to)
	z.begun = 0
	return nil
}

// Close ends the last member. If nothing was written there is an empty one: a file of no bytes is not one of its kind.
func (z *Compressor) Close() error {
	if z.any && z.begun == 0 {
		return nil
	}
	return z.end()
}

// gzipMagic begins each member.
var gzipMagic = []byte{0x1f, 0x8b}

// counter counts what is read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// members reads the members of gzip data one after the other, as gzip does. Zeros behind the last one are padding, as
// tar and tapes leave it.
type members struct {
	z       *gzip.Reader
	in      *bufio.Reader // no member is read beyond its end
	counted *counter      // below in
}

func newMembers(in *bufio.Reader, counted *counter) (*members, error) {
	begins, _ := in.Peek(len(gzipMagic)) // fewer bytes at the end of the data
	var z *gzip.Reader
	err := error(gzip.ErrHeader) // also of data that are shorter than a member's header
	if bytes.Equal(begins, gzipMagic[:len(begins)]) {
		z, err = gzip.NewReader(in)
	}
	if errors.Is(err, gzip.ErrHeader) {
		return nil, fmt.Errorf("it is not gzip data: take .gz off its name: %w", err)
	} else if err != nil {
		return nil, truncated(err)
	}
	z.Multistream(false)
	return &members{z, in, counted}, nil
}

// Read implements io.Reader.
func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.z.Read(p)
		if err != io.EOF {
			return n, truncated(err)
		}
		if n > 0 {
			return n, nil
		}
		if err := m.next(); err != nil {
			return 0, err
		}
	}
}

// next begins the next member, or returns io.EOF.
func (m *members) next() error {
	for {
		c, err := m.in.ReadByte()
		if err != nil {
			return err
		}
		if c != 0 {
			break
		}
	}
	if err := m.in.UnreadByte(); err != nil {
		return err
	}
	at := m.counted.n - int64(m.in.Buffered())
	begins, _ := m.in.Peek(len(gzipMagic)) // fewer bytes at the end of the data
	err := error(gzip.ErrHeader)
	if bytes.Equal(begins, gzipMagic[:len(begins)]) {
		err = m.z.Reset(m.in)
	}
	if errors.Is(err, gzip.ErrHeader) {
		return fmt.Errorf("something that is no gzip data follows the gzip data at byte %d: cut it off (head -c %d): %w", at, at, err)
	}
	if err != nil {
		return truncated(err)
	}
	m.z.Multistream(false)
	return nil
}

// Close frees the decoder.
func (m *members) Close() error { return m.z.Close() }

// truncated names what an end too early means.
func truncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is truncated: the gzip data end too early: %w", err)
	}
	if err == io.EOF {
		return fmt.Errorf("it is truncated: the gzip data end too early: %w", io.ErrUnexpectedEOF)
	}
	return err
}
