package outputs

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// compressionOf returns how a file is compressed, by its name.
func compressionOf(where string) wire.Compression {
	rest, _ := location.SplitQuery(where)
	return records.CompressionOf(rest)
}

// Encoding returns how a file is to be encoded, by its name: for [store.JoinOptions]. It is nil if the file has the
// bytes as they are.
func Encoding(where string) func(io.Writer) store.Encoder {
	c := compressionOf(where)
	if c == records.None {
		return nil
	}
	return func(w io.Writer) store.Encoder { return records.NewCompressor(w, c) }
}

// encode has fn write what w gets encoded, if the file's name says so.
func encode(where string, w io.Writer, fn func(io.Writer) error) error {
	begin := Encoding(where)
	if begin == nil {
		return fn(w)
	}
	encoder := begin(w)
	if err := fn(encoder); err != nil {
		return err
	}
	return encoder.Close()
}

// Encoded returns the content of a file that is to be encoded as its name says.
func Encoded(where string, data []byte) ([]byte, error) {
	var content bytes.Buffer
	err := encode(where, &content, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	return content.Bytes(), err
}

// Decode returns what a file contains, by its name. Close closes r.
func Decode(where string, r io.ReadCloser) (io.ReadCloser, error) {
	c := compressionOf(where)
	if c == records.None {
		return r, nil
	}
	plain, err := records.Decompress(r, c)
	if err != nil {
		_ = r.Close() // only read from
		return nil, store.Doing("reading "+where, err)
	}
	return decoded{plain, r}, nil
}

type decoded struct {
	io.ReadCloser
	raw io.Closer
}

func (d decoded) Close() error { return errors.Join(d.ReadCloser.Close(), d.raw.Close()) }

// OpenFile opens a file that a job has published, from an offset in its content on: a compressed one is read from its
// beginning. A negative length means all of the rest. The caller closes it.
func OpenFile(ctx context.Context, access ledger.Access, where string, offset, length int64) (io.ReadCloser, error) {
	if compressionOf(where) == records.None {
		return access.OpenInput(ctx, where, offset, length)
	}
	raw, err := access.OpenInput(ctx, where, 0, -1)
	if err != nil {
		return nil, err
	}
	plain, err := Decode(where, raw)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, plain, offset); err != nil {
		_ = plain.Close() // only read from
		return nil, store.Doing("reading "+where, inputs.IgnoreEOF(err))
	}
	if length < 0 {
		return plain, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(plain, length), plain}, nil
}
