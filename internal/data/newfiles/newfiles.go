// Package newfiles keeps the list of the files that runs of one name have completed, for jobs that leave these out
// (see [job.Files.NewFiles]).
//
// The list is an object beside the outputs, at a place that all runs of the name have in common: each of them may have
// a store of its own. It has sixteen bytes for each file, a digest of name, size, and ETag or else time. The run that
// is planned writes the digests of all files that it finds, those that it leaves out among them, into its own store;
// Finish adds them to the list when all is published. A list that is lost, broken or behind costs time: files run again.
package newfiles

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

const (
	// maxGone is how many files a list has at most beside those that its last run has found: of files that are gone, or
	// have changed, those that were found last.
	maxGone = 1_000_000

	format   = "stint completed files 1"
	keyBytes = 16
)

// key is the digest of a file as it was.
type key struct{ high, low uint64 }

// keyOf returns the digest of a file. A file that has only been touched has another one.
func keyOf(input store.Input) key {
	state := input.ETag
	if state == "" {
		state = strconv.FormatInt(input.ModTime.UnixNano(), 10)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", input.URL, input.Size, state))
	return keyIn(sum[:])
}

// keyIn reads a digest from the beginning of data.
func keyIn(data []byte) key {
	return key{binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:])}
}

func (k key) appendTo(data []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(data, k.high), k.low)
}

// List is what runs have completed. The zero value is that of the first run.
type List struct {
	// Broken says that there was a list, and that it cannot be read.
	Broken bool
	keys   []key // sorted
}

// Read returns the list at a location, and an empty one if no file is there.
func Read(ctx context.Context, access ledger.Access, location string) (List, error) {
	keys, broken, err := read(ctx, access, location)
	slices.SortFunc(keys, compare)
	return List{Broken: broken, keys: keys}, err
}

// Len returns how many files the list has.
func (l List) Len() int { return len(l.keys) }

// Has reports whether the list has a file, as it is.
func (l List) Has(input store.Input) bool { return has(l.keys, keyOf(input)) }

func has(sorted []key, k key) bool {
	_, found := slices.BinarySearchFunc(sorted, k, compare)
	return found
}

func compare(a, b key) int {
	if a.high != b.high {
		return cmp.Compare(a.high, b.high)
	}
	return cmp.Compare(a.low, b.low)
}

// read returns the digests of a list, those that were added last at the end.
func read(ctx context.Context, access ledger.Access, location string) (keys []key, broken bool, err error) {
	dir, name, err := open(ctx, access, location)
	if err != nil {
		return nil, false, err
	}
	data, err := dir.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, ledger.StoreError(job.ErrorInput, fmt.Errorf("list of completed files: %w", err))
	}
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	var h wire.CompletedFiles
	if json.Unmarshal(line, &h) != nil || h.Format != format || h.Files*keyBytes != len(rest) || h.Sum != sumOf(rest) {
		return nil, true, nil
	}
	return decode(rest), false, nil
}

func open(ctx context.Context, access ledger.Access, location string) (store.Dir, string, error) {
	where, name, err := store.Split(location)
	if err != nil {
		return nil, "", ledger.Permanent(job.ErrorInvalid, err)
	}
	dir, err := access.Open(ctx, where)
	return dir, name, ledger.StoreError(job.ErrorOutput, err)
}

func sumOf(data []byte) string { return ledger.FormatSum(crc32.Checksum(data, wire.CRC32C)) }

func decode(data []byte) []key {
	keys := make([]key, 0, len(data)/keyBytes)
	for ; len(data) >= keyBytes; data = data[keyBytes:] {
		keys = append(keys, keyIn(data))
	}
	return keys
}

func encode(keys []key) []byte {
	digests := make([]byte, 0, len(keys)*keyBytes)
	for _, k := range keys {
		digests = k.appendTo(digests)
	}
	line, _ := json.Marshal(wire.CompletedFiles{Format: format, Files: len(keys), Sum: sumOf(digests)}) // texts and a number
	return append(append(line, '\n'), digests...)
}

// Key returns the key of the object with the files that a run has found, for the source table at a key.
func Key(sources string) string {
	token := strings.TrimSuffix(strings.TrimPrefix(path.Base(sources), "sources-"), ".json")
	return path.Join(path.Dir(sources), "files-"+token)
}

// Found writes down the files that a run has found.
type Found struct{ w store.Writer }

// NewFound begins the object with the files of the source table at a key. The caller ends it with End or Abort.
func NewFound(ctx context.Context, dir store.Dir, sources string) (*Found, error) {
	w, err := dir.Create(ctx, Key(sources))
	return &Found{w}, ledger.StoreError(job.ErrorOutput, err)
}

// Add adds a file.
func (f *Found) Add(input store.Input) error {
	_, err := f.w.Write(keyOf(input).appendTo(nil))
	return ledger.StoreError(job.ErrorOutput, err)
}

// End makes the object appear.
func (f *Found) End() error { return ledger.StoreError(job.ErrorOutput, f.w.Commit()) }

// Abort gives the object up, unless it has ended.
func (f *Found) Abort() { f.w.Abort() }

// Complete adds the files that a run has found to the list, unless a newer run has claimed the run's store. It can be
// repeated, also after they were removed from the store. Of two runs that complete at the same moment, one may have
// its files left out of the list: they run again.
func Complete(ctx context.Context, access ledger.Access, dir store.Dir, ref wire.Ref, location string) error {
	data, err := dir.Get(ctx, Key(ref.Sources))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	return ledger.UnlessOvertaken(ctx, ref, dir, func(ctx context.Context) error {
		before, _, err := read(ctx, access, location)
		if err != nil {
			return err
		}
		to, name, err := open(ctx, access, location)
		if err != nil {
			return err
		}
		return to.Put(ctx, name, encode(merge(before, decode(data), maxGone)))
	})
}

// merge adds the files that a run has found to those of a list, of which it keeps at most so many others.
func merge(before, found []key, others int) []key {
	sorted := slices.SortedFunc(slices.Values(found), compare)
	gone := slices.DeleteFunc(before, func(k key) bool { return has(sorted, k) })
	gone = gone[max(0, len(gone)-others):]
	return append(gone, slices.Compact(sorted)...)
}
