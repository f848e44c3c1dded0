package inputs

import "io"

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
