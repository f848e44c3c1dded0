package devserver

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/disk"
	"github.com/stint-run/stint/internal/text"
)

const (
	// leastRoom, in bytes, must be free on the disk of a state directory for a server to start; people are warned if it
	// has less than lowRoom while the server runs. Without room the server cannot record anything, and all jobs wait.
	leastRoom = 32 << 20
	lowRoom   = 16 << 20
	roomEvery = time.Second
)

// FullError reports that the disk of the state directory has no room for a server.
type FullError struct {
	Dir   string
	Space disk.Space
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of %s, mounted at %s, has %s free and at least %s are needed: free some space there, or use another state directory",
		e.Dir, e.Space.At, mebibytes(e.Space.Free), mebibytes(leastRoom))
}

// leastFile is how long, in bytes, the files of a state directory may have to get for a server to work.
const leastFile = 16 << 20

// checkFileLimit returns an error if the files of this process may not get long enough for a state directory.
func checkFileLimit(limit uint64) error {
	if limit >= leastFile {
		return nil
	}
	return fmt.Errorf("files of this process may have at most %s (ulimit -f), and the database may need %s: raise that limit",
		mebibytes(int64(limit)), mebibytes(leastFile))
}

// mebibytes names a number of bytes; in bytes if it is less than a mebibyte.
func mebibytes(n int64) string {
	if n < 1<<20 {
		return text.Thousands(n) + " bytes"
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// checkRoom returns a *FullError if the disk of a state directory has too little room to start.
func checkRoom(dir string, spaceOf func(string) (disk.Space, error)) error {
	space, err := spaceOf(dir)
	if err != nil || space.Free >= leastRoom {
		return nil // what is not known shows when something is written
	}
	return &FullError{Dir: dir, Space: space}
}

// fullOr returns the *FullError of a start that failed because the disk of the state directory filled up meanwhile,
// and otherwise err.
func fullOr(dir string, spaceOf func(string) (disk.Space, error), err error) error {
	if dir == "" {
		return err
	}
	if space, unknown := spaceOf(dir); unknown == nil && space.Free < lowRoom {
		return &FullError{Dir: dir, Space: space}
	}
	return err
}

// watchRoom calls note when the disk of a state directory gets full, and when it has room again, until quit is closed.
func watchRoom(dir string, spaceOf func(string) (disk.Space, error), note func(string), quit <-chan struct{}) {
	ticks := time.NewTicker(roomEvery)
	defer ticks.Stop()
	for low := false; ; {
		select {
		case <-quit:
			return
		case <-ticks.C:
		}
		space, err := spaceOf(dir)
		switch {
		case err != nil:
		case !low && space.Free < lowRoom:
			low = true
			note(fmt.Sprintf("the disk of %s, mounted at %s, is full (%s free): nothing can be recorded; free some space there, and everything continues",
				dir, space.At, mebibytes(space.Free)))
		case low && space.Free >= leastRoom:
			low = false
			note(fmt.Sprintf("the disk of %s has room again (%s free)", dir, mebibytes(space.Free)))
		}
	}
}
