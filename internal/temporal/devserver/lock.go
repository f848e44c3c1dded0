package devserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/procs"
)

const (
	lockFile   = "lock"
	holderFile = "lock.json"

	// Looking for the holder may take the lock for a moment. A refusal counts only when it lasts.
	lockPatience = 100 * time.Millisecond
	lockRetry    = 5 * time.Millisecond
	// dyingPatience bounds how long a process that was killed may take to end: it holds its lock until then. So does
	// a child of it that had not begun to run its program.
	dyingPatience = 30 * time.Second
)

// HeldError reports that another server holds a state directory.
type HeldError struct {
	// Dir is the state directory.
	Dir string
	// PID is the process that holds it; 0: not known.
	PID int
	// Address is the frontend's host:port; "" while that server is starting.
	Address string
	// Since is when it took the directory.
	Since time.Time
	// For is what it was started for (see Options.For); "" if that is not known.
	For string
}

// Error says who holds the directory and what to do.
func (e *HeldError) Error() string {
	who, stop := "another process", "stop that process"
	if e.PID != 0 {
		who, stop = fmt.Sprintf("process %d", e.PID), fmt.Sprintf("stop process %d", e.PID)
	}
	if !e.Since.IsZero() {
		who += " since " + e.Since.Local().Format(time.DateTime)
	}
	if e.Address == "" {
		return fmt.Sprintf("state directory %s is in use by %s, which is still starting: try again, or %s", e.Dir, who, stop)
	}
	return fmt.Sprintf("state directory %s is in use by %s: connect to %s, or %s", e.Dir, who, e.Address, stop)
}

// HolderInfo describes the server that holds a state directory.
type HolderInfo struct {
	// PID is its process; 0: not known.
	PID int `json:"pid"`
	// Process names it, as procs.Own does.
	Process string `json:"process,omitempty"`
	// Started is when it took the directory.
	Started time.Time `json:"started"`
	// Address is the frontend's host:port; "" while the server is starting.
	Address string `json:"address,omitempty"`
	// UI is the URL of the web UI; "" without one.
	UI string `json:"ui,omitempty"`
	// Namespace is the namespace that the server was started with.
	Namespace string `json:"namespace,omitempty"`
	// For is what it was started for: see Options.For.
	For string `json:"for,omitempty"`
	// Command is the command line of the process.
	Command string `json:"command,omitempty"`
}

// Holder looks up which server holds a state directory. It is nil when none does, or when the directory does not exist.
// It may be called at any time, by any process that may read the directory.
func Holder(dir string) (*HolderInfo, error) {
	// A holder has a record, and looking no further without one keeps those who look out of the way of those who take.
	if _, err := os.Stat(filepath.Join(dir, holderFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	free, err := tryLock(f, shared)
	if err != nil {
		return nil, fmt.Errorf("looking at the lock of %s: %w", dir, err)
	}
	if free { // the record is of a process that died
		return nil, nil
	}
	info := readHolder(dir)
	return &info, nil
}

// readHolder returns what is known of the holder. A holder that has just taken the lock may not have written it yet.
func readHolder(dir string) HolderInfo {
	var info HolderInfo
	data, err := os.ReadFile(filepath.Join(dir, holderFile))
	if err != nil || json.Unmarshal(data, &info) != nil {
		return HolderInfo{}
	}
	return info
}

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
