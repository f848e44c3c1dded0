package reuse

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/limits"
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

// Offer are the stores in which a run looks for results: its own, and the one that its spec names.
type Offer struct{ Own, From store.Dir }

// Begin says how a run of a job keeps results, and which of an earlier run it takes.
func (o Offer) Begin(ctx context.Context, name string, spec job.Spec) (*wire.Reuse, error) {
	want := spec.Reuse
	form, err := formOf(spec)
	if err != nil {
		return nil, err
	}
	r := &wire.Reuse{Store: want.Store, Key: want.Key, Changed: want.Changed, Version: want.Version, Form: form, HashKey: NewHashKey()}
	schedule, _, scheduled := limits.ScheduledName(name)
	if scheduled {
		name = schedule
	}
	of, err := Current(ctx, o.Own)
	if own := want.Of == "" || scheduled && of != nil && jobOf(of) == name; err == nil && (!own || of == nil && want.From != want.Store) {
		of, err = Current(ctx, o.From)
		if want.Of != "" {
			name = want.Of
		}
	}
	if err != nil || of == nil {
		return r, err
	}
	if r.Unfit = unfit(name, r, of); r.Unfit == "" {
		r.From, r.HashKey = of, of.HashKey
	}
	return r, nil
}

// jobOf returns the name of the job that an index is of; of a scheduled one that of the schedule.
func jobOf(of *wire.ReuseIndex) string {
	if schedule, _, ok := limits.ScheduledName(of.Job); ok {
		return schedule
	}
	return of.Job
}

// BeginAdding says how a redrive adds its results to those of its job, which are those that its store has; nil: it does
// not, because these are of another kind.
func BeginAdding(ctx context.Context, own store.Dir, name string, spec job.Spec) (*wire.Reuse, error) {
	alone := *spec.Reuse
	alone.Of = ""
	spec.Reuse = &alone
	r, err := Offer{Own: own, From: own}.Begin(ctx, name, spec)
	if err != nil || r.From == nil {
		return nil, err
	}
	r.Adds = true
	return r, nil
}

// formOf describes in which form results are written, and what they have come through: one that differs makes them
// others.
func formOf(spec job.Spec) (string, error) {
	var form []string
	if spec.Flatten {
		form = append(form, "flat")
	}
	if len(spec.Stages) > 0 {
		data, err := json.Marshal(plainStages(spec.Stages))
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		form = append(form, hex.EncodeToString(sum[:8]))
	}
	return strings.Join(form, ","), nil
}

// plainStages returns stages without what does not change their results.
func plainStages(stages []job.Stage) []job.Stage {
	stages = slices.Clone(stages)
	for i := range stages {
		stages[i] = plainStage(stages[i])
	}
	return stages
}

func plainStage(s job.Stage) job.Stage {
	s.BatchItems, s.Window = 0, 0
	s.Ensemble, s.Stages, s.Cases = plainStages(s.Ensemble), plainStages(s.Stages), slices.Clone(s.Cases)
	for i := range s.Cases {
		s.Cases[i].Stage = plainStage(s.Cases[i].Stage)
	}
	if s.Default != nil {
		plain := plainStage(*s.Default)
		s.Default = &plain
	}
	return s
}

// unfit says why a run takes nothing of an index that should be of a job; empty: it does.
func unfit(name string, r *wire.Reuse, of *wire.ReuseIndex) string {
	switch {
	case jobOf(of) != name:
		return "they are of job " + of.Job + ", and not of " + name + ": --reuse=" + jobOf(of) + " takes them"
	case r.Version != of.Version:
		return "they are of version " + quoted(of.Version) + ", and this run is of version " + quoted(r.Version)
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
