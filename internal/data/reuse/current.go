package reuse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strings"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Folder is what the keys of all objects of this package in a store begin with.
const Folder = "reuse/"

// currentKey names the object that says which results a store has: a [wire.ReuseIndex] as a line of JSON, and a line with
// the checksum of that.
const currentKey = Folder + "current.jsonl"

// name makes an index the one that the next run takes.
func name(ctx context.Context, to store.Dir, of *wire.ReuseIndex) error {
	line, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return to.Put(ctx, currentKey, fmt.Appendf(line, "\n%q\n", checksum(line)))
}

func checksum(line []byte) string { return ledger.FormatSum(crc32.Checksum(line, wire.CRC32C)) }

// Current returns what results a store has; nil: none, or none that this program understands.
func Current(ctx context.Context, dir store.Dir) (*wire.ReuseIndex, error) {
	data, err := dir.Get(ctx, currentKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, ledger.StoreError(job.ErrorInput, store.Doing("looking for results to use again", err))
	}
	var of wire.ReuseIndex
	line, sum, _ := bytes.Cut(data, []byte("\n"))
	if string(sum) != fmt.Sprintf("%q\n", checksum(line)) || json.Unmarshal(line, &of) != nil || of.Format != wire.ReuseFormat {
		return nil, nil
	}
	of.Location = dir.Location()
	return &of, nil
}

// Begin says how a run keeps results, and which of an earlier run it takes: those of the store from.
func Begin(ctx context.Context, from store.Dir, spec job.Spec) (*wire.Reuse, error) {
	want := spec.Reuse
	r := &wire.Reuse{Store: want.Store, Key: want.Key, Changed: want.Changed, Version: want.Version, Form: formOf(spec), HashKey: NewHashKey()}
	of, err := Current(ctx, from)
	if err != nil || of == nil {
		return r, err
	}
	if r.Unfit = unfit(r, of); r.Unfit == "" {
		r.From, r.HashKey = of, of.HashKey
	}
	return r, nil
}

// BeginAdding says how a redrive adds its results to those of its job, which are those that a store has; nil: it does not,
// because these are of another kind.
func BeginAdding(ctx context.Context, dir store.Dir, spec job.Spec) (*wire.Reuse, error) {
	r, err := Begin(ctx, dir, spec)
	if err != nil || r.From == nil {
		return nil, err
	}
	r.Adds = true
	return r, nil
}

// formOf describes in which form results are written: one that differs makes them others.
func formOf(spec job.Spec) string {
	var form []string
	if spec.Flatten {
		form = append(form, "flat")
	}
	for _, s := range spec.StagePools() {
		form = append(form, s.Name)
	}
	return strings.Join(form, ",")
}

// unfit says why a run takes nothing of an index; empty: it does.
func unfit(r *wire.Reuse, of *wire.ReuseIndex) string {
	switch {
	case r.Version != of.Version:
		return "its results are of version " + quoted(of.Version) + ", and this run is of version " + quoted(r.Version)
	case r.Key != of.Key:
		return "its items were known by " + keyText(of.Key) + ", and those of this run are by " + keyText(r.Key)
	case r.Changed != of.Changed:
		return "its items were compared by " + changedText(of.Changed) + ", and those of this run are by " + changedText(r.Changed)
	case r.Form != of.Form:
		return "its stages, or the form of its results, were others"
	}
	return ""
}

func quoted(version string) string {
	if version == "" {
		return "none"
	}
	return version
}

func keyText(key string) string {
	if key == "" {
		return "their content"
	}
	return "the field " + key
}

func changedText(field string) string {
	if field == "" {
		return "all that is in them"
	}
	return "the field " + field
}
