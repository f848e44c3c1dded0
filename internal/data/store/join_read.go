package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"sync"

	"github.com/stint-run/stint/internal/base/trap"
)

// How pieces are read ahead: local chunks stay in the processor's cache between reading, checking
// and writing; for a bucket they are large and many because every request takes time. There are two
// more buffers than readers.
const (
	localChunk    = 1 << 20
	localReaders  = 2
	bucketChunk   = 4 << 20
	bucketReaders = 8
)

// chunk is a part of a piece on its way from the readers to the writer.
type chunk struct {
	piece  Piece
	offset int64 // in the piece
	length int
	last   bool // of the piece

	buf  []byte
	data []byte // what was read, in buf
	sum  uint32 // its checksum
	err  error
	read chan struct{} // closed when data, sum and err are set
}

// reading reads pieces ahead.
type reading struct {
	from   Dir
	size   int64       // of a chunk
	chunks chan *chunk // in order, not necessarily read yet; closed at the end
	work   chan *chunk // the same, for the readers
	free   chan []byte // buffers: they bound how far ahead the reading is
	group  sync.WaitGroup
}

// startReading begins to read. The caller takes chunks, gives the buffer of each back, and at the end
// cancels the context (unless all were taken) and waits for the group.
func startReading(ctx context.Context, from Dir, pieces iter.Seq2[Piece, error]) *reading {
	readers := bucketReaders
	r := &reading{from: from, size: bucketChunk}
	if _, local := from.Local(); local {
		r.size, readers = localChunk, localReaders
	}
	r.chunks = make(chan *chunk, readers+2)
	r.work = make(chan *chunk, readers+2)
	r.free = make(chan []byte, readers+2)
	for range cap(r.free) {
		r.free <- nil // allocated when first needed, as large as needed
	}
	r.group.Go(func() {
		defer close(r.chunks)
		defer close(r.work)
		if defect := trap.Run("planning to read parts", func() { r.plan(ctx, pieces) }); defect != nil {
			r.fail(ctx, defect)
		}
	})
	for range readers {
		r.group.Go(func() {
			for c := range r.work {
				c.err = trap.Call("reading a part", func() (err error) {
					c.data, err = r.readChunk(ctx, c)
					return err
				})
				c.sum = crc32.Checksum(c.data, castagnoli)
				close(c.read)
			}
		})
	}
	return r
}

// fail has the caller get an error in place of the next chunk.
func (r *reading) fail(ctx context.Context, err error) {
	c := &chunk{err: err, read: make(chan struct{})}
	close(c.read)
	select {
	case r.chunks <- c:
	case <-ctx.Done():
	}
}

// plan cuts the pieces into chunks. Neither channel can be full: there are no more chunks than
// buffers.
func (r *reading) plan(ctx context.Context, pieces iter.Seq2[Piece, error]) {
	for piece, err := range pieces {
		if err == nil && piece.Length < 0 {
			err = fmt.Errorf("the piece %s has the length %d: %w", piece.Key, piece.Length, fs.ErrInvalid)
		}
		for offset := int64(0); ; {
			c := &chunk{piece: piece, offset: offset, err: err, read: make(chan struct{})}
			select {
			case c.buf = <-r.free:
			case <-ctx.Done():
				return
			}
			if err != nil {
				close(c.read)
				r.chunks <- c
				return
			}
			c.length = int(min(r.size, piece.Length-offset))
			offset += int64(c.length)
			c.last = offset == piece.Length
			r.work <- c
			r.chunks <- c
			if c.last {
				break
			}
		}
	}
}

// readChunk reads a chunk and, after the last one of a piece, makes sure that nothing follows.
func (r *reading) readChunk(ctx context.Context, c *chunk) ([]byte, error) {
	want := c.length
	if c.last {
		want++ // one byte too many shows that the piece has grown
	}
	if cap(c.buf) < want {
		c.buf = make([]byte, want)
	}
	buf := c.buf[:want]
	part, err := r.from.Open(ctx, c.piece.Key, c.offset, int64(want))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CorruptError{Key: c.piece.Key, Reason: "is missing", Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	n, err := io.ReadFull(part, buf)
	if f, ok := part.(interface{ Forget(offset, length int64) }); ok {
		f.Forget(c.offset, int64(want))
	}
	closeErr := part.Close()
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { // not errors.Is: a broken connection is not a short object
		return nil, err
	}
	if closeErr != nil {
		return nil, closeErr
	}
	switch {
	case n < c.length:
		return nil, &CorruptError{Key: c.piece.Key, Reason: fmt.Sprintf("has %d bytes, not %d", c.offset+int64(n), c.piece.Length)}
	case n > c.length:
		return nil, &CorruptError{Key: c.piece.Key, Reason: fmt.Sprintf("has more than its %d bytes", c.piece.Length)}
	}
	return buf[:n], nil
}

// castagnoli is the polynomial of every checksum here: processors have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcPowers holds x^(2^n) modulo the polynomial, for every n that a length in bits can have.
var crcPowers = func() (powers [66]uint32) {
	powers[0] = 1 << 30 // x: bit 31 stands for x^0
	for n := 1; n < len(powers); n++ {
		powers[n] = crcMultiply(powers[n-1], powers[n-1])
	}
	return powers
}()

// combine returns the checksum of two pieces of data, one after the other, from the checksum of
// each and the length of the second in bytes. It is the method of zlib's crc32_combine: the first
// checksum times x^(8·length), plus the second.
func combine(first, second uint32, length int64) uint32 {
	shift := uint32(1) << 31 // x^0
	for n := 3; length > 0; n++ {
		if length&1 != 0 {
			shift = crcMultiply(crcPowers[n], shift)
		}
		length >>= 1
	}
	return crcMultiply(shift, first) ^ second
}

// crcMultiply multiplies two polynomials modulo that of the checksum.
func crcMultiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return product
}
