package inputs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// openWhole opens a source from its beginning, uncompressed.
func (n *Inputs) openWhole(ctx context.Context, s *wire.Source) (io.ReadCloser, error) {
	raw, err := n.access.OpenInput(ctx, s.URL, 0, -1)
	if err != nil {
		return nil, ledger.StoreError(job.ErrorInput, err)
	}
	host := &hostReader{ReadCloser: raw, url: s.URL}
	plain, err := records.Decompress(host, s.Compression)
	if err != nil {
		_ = raw.Close() // only read from
		return nil, host.judge(err)
	}
	return plainReader{plain, host}, nil
}

// hostReader reads an input as it lies on its host. It keeps the error by which that has ended, because a host
// that is out of reach does not mean that the input is damaged: it is to be read again.
type hostReader struct {
	io.ReadCloser
	url string
	err error // nil while it reads, and at the end
}

func (h *hostReader) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b)
	h.err = IgnoreEOF(err)
	return n, err
}

// judge returns what activities return for an error in what was read: the host's, if that is why.
func (h *hostReader) judge(err error) error {
	if h.err != nil {
		return ledger.StoreError(job.ErrorInput, store.Doing("reading "+h.url, h.err))
	}
	return ledger.Permanent(job.ErrorInput, fmt.Errorf("reading %s: %w", h.url, err))
}

type plainReader struct {
	io.ReadCloser
	raw *hostReader
}

func (p plainReader) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err != nil && err != io.EOF {
		err = p.raw.judge(err)
	}
	return n, err
}

func (p plainReader) Close() error { return errors.Join(p.ReadCloser.Close(), p.raw.Close()) }

// openFrom opens a source uncompressed from offset on, by reading over what is before.
func (n *Inputs) openFrom(ctx context.Context, s *wire.Source, offset int64) (io.ReadCloser, error) {
	if s.URL == stdinName {
		// Only a survey comes here: it has not read the head yet.
		r, err := n.takeStdin()
		if err != nil {
			return nil, err
		}
		var head bytes.Buffer
		if err := takeHead(s, io.TeeReader(r, &head)); err != nil {
			return nil, err
		}
		whole := io.MultiReader(&head, r)
		_, err = io.CopyN(io.Discard, whole, s.Start)
		return io.NopCloser(whole), err
	}
	r, err := n.openWhole(ctx, s)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, r, offset); err != nil {
		_ = r.Close() // only read from
		return nil, IgnoreEOF(err)
	}
	return r, nil
}

// lazyReader opens with the first read, so that errors of opening are errors of reading.
type lazyReader struct {
	open func() (io.ReadCloser, error)
	r    io.ReadCloser
}

func (l *lazyReader) Read(p []byte) (int, error) {
	if l.r == nil {
		r, err := l.open()
		if err != nil {
			return 0, err
		}
		l.r = r
	}
	return l.r.Read(p)
}

func (l *lazyReader) Close() error {
	if l.r == nil {
		return nil
	}
	return l.r.Close()
}

// readerFunc is a function that reads.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
