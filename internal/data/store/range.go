package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
)

// ReadRange reads n bytes of an object from offset on, all of them. See [Lost] for the error.
func ReadRange(ctx context.Context, dir Dir, key string, offset, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	r, err := dir.Open(ctx, key, offset, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, n)
	_, err = io.ReadFull(r, data)
	return data, err
}

// Lost reports whether an error of ReadRange says that the object is missing or cut: others may pass.
func Lost(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err == io.ErrUnexpectedEOF || err == io.EOF // others that wrap these are of a connection
}
