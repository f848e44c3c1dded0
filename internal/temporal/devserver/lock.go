//go:build !noserver

package devserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/procs"
)

const (
	// Looking for the holder may take the lock for a moment. A refusal counts only when it lasts.
	lockPatience = 100 * time.Millisecond
	lockRetry    = 5 * time.Millisecond
	// dyingPatience bounds how long a process that was killed may take to end: it holds its lock until then. So does
	// a child of it that had not begun to run its program.
	dyingPatience = 30 * time.Second
)

// lock is the hold on a state directory. The kernel releases it when the process ends, however it ends.
type lock struct {
	dir  string
	file *os.File
	info HolderInfo
}

// lockDir takes the directory, or returns a *HeldError.
func lockDir(dir, namespace, purpose string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	taken, err := lockPatiently(f, func() bool {
		holder := readHolder(dir)
		ended, known := procs.Ended(holder.Process) // then one that it was about to start has its files, until it begins
		return known && ended || procs.Dying(holder.PID)
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	if !taken {
		f.Close()
		info := readHolder(dir)
		return nil, &HeldError{Dir: dir, PID: info.PID, Address: info.Address, Since: info.Started, For: info.For}
	}
	l := &lock{dir: dir, file: f, info: HolderInfo{
		PID:       os.Getpid(),
		Process:   procs.Own(),
		Started:   time.Now().Round(0),
		Namespace: namespace,
		For:       purpose,
		Command:   strings.Join(os.Args, " "),
	}}
	if err := l.write(); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// lockPatiently takes the lock if it is free soon. It waits for a holder that is dying.
func lockPatiently(f *os.File, dying func() bool) (bool, error) {
	began := time.Now()
	seen := began // when the holder was last seen dying: between two signs of that it shows none for a moment
	for ; ; time.Sleep(lockRetry) {
		taken, err := tryLock(f, exclusive)
		now := time.Now()
		if !taken && err == nil && dying() {
			seen = now
		}
		if taken || err != nil || now.Sub(seen) > lockPatience || now.Sub(began) > dyingPatience {
			return taken, err
		}
	}
}

// announce records where the server is, for Holder.
func (l *lock) announce(address, ui string) error {
	l.info.Address, l.info.UI = address, ui
	return l.write()
}

func (l *lock) write() error {
	if err := writeJSON(filepath.Join(l.dir, holderFile), l.info, false); err != nil {
		return fmt.Errorf("recording the holder of %s: %w", l.dir, err)
	}
	return nil
}

// release gives the directory back. What it cannot remove it leaves: without the lock the record means nothing.
func (l *lock) release() {
	_ = os.Remove(filepath.Join(l.dir, holderFile))
	_ = l.file.Close()
}
