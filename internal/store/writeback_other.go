//go:build !linux

package store

import "os"

func startWriteback(*os.File, int64, int64) {}

func waitWriteback(*os.File, int64, int64) error { return nil }

func adviseSequential(*os.File) {}

func adviseDone(*os.File, int64, int64) {}

func createDirect(path string) (*os.File, error) { return createCached(path) }

func leaveDirect(*os.File) error { return nil }

func alignmentError(error) bool { return false }
