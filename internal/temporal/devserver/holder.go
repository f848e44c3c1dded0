package devserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	lockFile   = "lock"
	holderFile = "lock.json"
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
