package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Done is the object DONE of a run: what it has published.
type Done struct {
	Output  job.Output `json:"output"`
	Errors  SideFile   `json:"errors"`           // of error records
	Dropped SideFile   `json:"dropped,omitzero"` // of dropped items
	Books   Books      `json:"books"`
	// Delivered: what goes into devices and pipes has been written into them. Of a file that shows by the file.
	Delivered bool `json:"delivered,omitempty"`
	// Kept: the output is one file, or was to be, and went into a device or a pipe: the parts are what is kept of it.
	Kept bool `json:"kept,omitempty"`
	Merged
}

// SideFile is the content of the file of error records, or of dropped items. If there are none, there is no file.
type SideFile struct {
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"` // CRC-32C
}

// Write counts data: the file is what is written.
func (f *SideFile) Write(data []byte) (int, error) {
	f.Bytes += int64(len(data))
	f.Sum = crc32.Update(f.Sum, CRC32C, data)
	return len(data), nil
}

// Merged is what a redrive has made of a job's output; zero for other runs.
type Merged struct {
	Redriven   int64           `json:"redriven,omitempty"` // items run again
	Manifests  []string        `json:"manifests,omitempty"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Before lists the runs that have made the state before.
	Before []string `json:"before,omitempty"`
}

// ReadDone returns what a run has published; nil if it has not published yet.
func ReadDone(ctx context.Context, dir store.Dir, run string) (*Done, error) {
	key := Ref{Run: run}.DoneKey()
	data, err := dir.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, StoreError(job.ErrorOutput, err)
	}
	var d Done
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, Permanent(job.ErrorCorrupt, fmt.Errorf("reading %s: %w", key, err))
	}
	return &d, nil
}

// Write records in the store what the run has published.
func (d *Done) Write(ctx context.Context, dir store.Dir, ref Ref) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("writing DONE: %w", err)
	}
	return StoreError(job.ErrorOutput, dir.Put(ctx, ref.DoneKey(), data))
}
