//go:build !linux

package store

import "os"

func startWriteback(*os.File, int64, int64) {}

func waitWriteback(*os.File, int64, int64) error { return nil }

func adviseSequential(*os.File) {}

func createDirect(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

func leaveDirect(*os.File) error { return nil }

func alignmentError(error) bool { return false }
