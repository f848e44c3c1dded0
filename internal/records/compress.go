package records

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stint-run/stint/internal/wire"
)

// memberBytes is how many bytes a member (gzip) or frame (zstd) has at least, uncompressed, unless it is the last one: smaller ones
// compress badly.
const memberBytes = 256 << 10

// Compressor compresses what is written to it, in members or frames that can be read one by one and joined. It is not safe for concurrent use.
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
