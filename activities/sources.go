package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"golang.org/x/sync/errgroup"
)

// stdinName is the input that stands for the standard input.
const stdinName = "-"

// Table is a job's list of inputs as they were when the job was planned. It is written once, as
// one object of the store, and never changed.
type Table struct {
	Sources []Source `json:"sources"`
}

// Source is one input object.
type Source struct {
	URL     string    `json:"url"`
	Size    int64     `json:"size"` // bytes as stored; 0 for the standard input
	ModTime time.Time `json:"mod_time,omitzero"`
	ETag    string    `json:"etag,omitempty"`

	Shape       records.Shape       `json:"shape"`
	Start       int64               `json:"start"` // offset of the first item
	Compression records.Compression `json:"compression,omitempty"`
	// Spool is the key prefix of the uncompressed copy of an input that cannot be read from the
	// middle; empty for others.
	Spool string `json:"spool,omitempty"`
}

// headReaders is how many inputs are opened at once to look at their beginnings.
const headReaders = 16

// buildTable expands the inputs and looks at the beginning of each.
func (a *Activities) buildTable(ctx context.Context, in PlanInput) (*Table, error) {
	var table Table
	for _, arg := range in.Spec.Input {
		if arg == stdinName {
			table.Sources = append(table.Sources, Source{URL: stdinName})
			continue
		}
		inputs, err := a.opts.Access.Expand(ctx, []string{arg})
		if err != nil {
			return nil, storeError(job.ErrorInput, err)
		}
		for _, input := range inputs {
			table.Sources = append(table.Sources, Source{URL: input.URL, Size: input.Size, ModTime: input.ModTime, ETag: input.ETag})
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(headReaders)
	for i := range table.Sources {
		s := &table.Sources[i]
		if err := s.choose(in.Spec); err != nil {
			return nil, permanent(job.ErrorInvalid, err)
		}
		if s.Compression != records.None || s.URL == stdinName {
			s.Spool = path.Join(in.Ref.Run, "spool", fmt.Sprint(i))
		}
		if s.URL == stdinName {
			continue // its head is read from its spool
		}
		group.Go(func() error { return a.readHead(ctx, s, in.Spec.MaxItem) })
	}
	return &table, group.Wait()
}

// choose settles format and compression.
func (s *Source) choose(spec job.Spec) error {
	format := records.Format("")
	if spec.Format != "" && spec.Format != "auto" {
		f, err := records.ParseFormat(spec.Format)
		if err != nil {
			return err
		}
		format = f
	}
	if s.URL == stdinName {
		if format == "" {
			format = records.Text
		}
	} else {
		_, name, err := store.Split(s.URL)
		if err != nil {
			return err
		}
		s.Compression = records.CompressionOf(name)
		if format == "" {
			f, err := records.FormatOf(name)
			if err != nil {
				return err
			}
			format = f
		}
	}
	s.Shape = records.Shape{Format: format, MaxItem: int(spec.MaxItem)}
	return nil
}

func (a *Activities) readHead(ctx context.Context, s *Source, maxItem int64) error {
	raw, err := a.opts.Access.OpenInput(ctx, s.URL, 0, -1)
	if err != nil {
		return storeError(job.ErrorInput, err)
	}
	defer raw.Close()
	var r io.Reader = raw
	if s.Compression != records.None {
		plain, err := records.Decompress(raw, s.Compression)
		if err != nil {
			return permanent(job.ErrorInput, fmt.Errorf("reading %s: %w", s.URL, err))
		}
		defer plain.Close()
		r = plain
	}
	return s.takeHead(r, maxItem)
}

// takeHead reads the byte order mark and the CSV header from the beginning of the source.
func (s *Source) takeHead(r io.Reader, maxItem int64) error {
	shape, start, err := records.ReadHead(r, s.Shape.Format, int(maxItem))
	if err != nil {
		return permanent(job.ErrorInput, fmt.Errorf("reading the beginning of %s: %w", s.URL, err))
	}
	s.Shape, s.Start = shape, start
	return nil
}

// unchanged returns a permanent error where the input is not what it was when it was planned.
func (a *Activities) unchanged(ctx context.Context, s *Source) error {
	if s.URL == stdinName || s.redriven() {
		return nil
	}
	info, err := a.opts.Access.StatInput(ctx, s.URL)
	if err != nil {
		return storeError(job.ErrorInput, err)
	}
	if info.Same(store.Info{Size: s.Size, ModTime: s.ModTime, ETag: s.ETag}) {
		return nil
	}
	return permanent(job.ErrorChanged, fmt.Errorf(
		"input %s changed while the job ran: it had %d bytes, last modified %s, and now has %d bytes, last modified %s; "+
			"put the old file back and resume, or start anew with --fresh",
		s.URL, s.Size, s.ModTime.UTC().Format(time.RFC3339Nano), info.Size, info.ModTime.UTC().Format(time.RFC3339Nano)))
}

func writeTable(ctx context.Context, dir store.Dir, key string, t *Table) error {
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("writing the source table: %w", err)
	}
	return storeError(job.ErrorOutput, dir.Put(ctx, key, data))
}

// table returns the source table of a run, from memory where it has been read before.
func (a *Activities) table(ctx context.Context, dir store.Dir, key string) (*Table, error) {
	cached := dir.Location() + "\x00" + key
	a.mu.Lock()
	t := a.tables[cached]
	a.mu.Unlock()
	if t != nil {
		return t, nil
	}
	data, err := dir.Get(ctx, key)
	if err != nil {
		return nil, storeError(job.ErrorInput, fmt.Errorf("reading the source table: %w", err))
	}
	t = &Table{}
	if err := json.Unmarshal(data, t); err != nil {
		return nil, permanent(job.ErrorCorrupt, fmt.Errorf("reading the source table %s: %w", key, err))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tables) >= maxCached {
		clear(a.tables) // tables are small and quickly read again
	}
	a.tables[cached] = t
	return t, nil
}

// maxCached bounds what a worker remembers of jobs between activities.
const maxCached = 64

// totalBytes is the size of all inputs, or 0 where it cannot be known beforehand.
func (t *Table) totalBytes() int64 {
	var total int64
	for i := range t.Sources {
		if t.Sources[i].Spool != "" && !t.Sources[i].redriven() {
			return 0
		}
		total += t.Sources[i].Size - t.Sources[i].Start
	}
	return total
}
