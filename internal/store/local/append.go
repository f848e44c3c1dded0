package local

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/stint-run/stint/internal/stall"
)

// Append implements object.Appender.
func (d *Dir) Append(ctx context.Context, key string, at int64, data []byte) error {
	path, err := d.writable(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer stall.Begin(ctx, "writing", d.where(key)).Close()
	info, err := os.Lstat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() < at) {
		err = fs.ErrNotExist // not what was written there
	}
	if err != nil {
		return Error("writing", d.where(key), err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return Error("writing", d.where(key), err)
	}
	_, err = f.WriteAt(data, at)
	if err == nil {
		err = f.Sync()
	}
	return Error("writing", d.where(key), errors.Join(err, f.Close()))
}
