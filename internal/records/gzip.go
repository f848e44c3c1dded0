package records

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

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

// members reads the members of gzip data one after the other, as gzip does. Zeros behind the last one are padding, as tar and tapes
// leave it.
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
