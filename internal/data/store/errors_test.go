package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
)

func TestPermanent(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid, syscall.EROFS, syscall.ENOTDIR, syscall.EISDIR, syscall.EACCES,
		&os.PathError{Op: "open", Err: syscall.EROFS},
		&store.DeniedError{}, &store.LocationError{}, &store.NoMatchError{}, &store.FencedError{}, &store.CorruptError{},
	} {
		require.True(t, store.Permanent(err), "%v", err)
		require.True(t, store.Permanent(fmt.Errorf("doing x: %w", err)), "%v", err)
	}
	for _, err := range []error{
		nil, errors.New("any"), context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EIO, syscall.ENOSPC, syscall.EDQUOT,
		syscall.EMFILE, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	} {
		require.False(t, store.Permanent(err), "%v", err)
	}
}
