//go:build !linux

package store

import "os"

func startWriteback(*os.File, int64, int64) {}

func waitWriteback(*os.File, int64, int64) error { return nil }

func adviseSequential(*os.File) {}
