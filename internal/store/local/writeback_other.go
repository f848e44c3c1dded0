//go:build !linux

package local

import (
	"io/fs"
	"os"
)

func startWriteback(*os.File, int64, int64) {}

func waitWriteback(*os.File, int64, int64) error { return nil }

func adviseSequential(*os.File) {}

func adviseDone(*os.File, int64, int64) {}

func createDirect(path string, perm fs.FileMode) (*os.File, error) { return createCached(path, perm) }

func leaveDirect(*os.File) error { return nil }

func alignmentError(error) bool { return false }
