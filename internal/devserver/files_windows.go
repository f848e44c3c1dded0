package devserver

import "math"

// fileLimit is how long the files of this process may get, in bytes: Windows has no limit.
func fileLimit() uint64 { return math.MaxUint64 }

// syncDir does nothing: Windows has no way to sync a directory.
func syncDir(string) error { return nil }
