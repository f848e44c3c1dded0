package activities

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

func formatSum(sum uint32) string { return fmt.Sprintf("crc32c:%08x", sum) }

// checksum reads an object and returns its CRC-32C and length; also gets the bytes, too.
func checksum(ctx context.Context, dir store.Dir, key string, also io.Writer) (uint32, int64, error) {
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(io.MultiWriter(sum, also), struct{ io.Reader }{r}, make([]byte, 256<<10))
	return sum.Sum32(), n, err
}

// verified fails where a part is not what was accepted; err is of reading it.
func verified(key string, gotBytes, bytes int64, gotSum, sum uint32, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return permanent(job.ErrorCorrupt, fmt.Errorf("part %s is gone from the store: %w", key, err))
	case err != nil:
		return storeError(job.ErrorCorrupt, fmt.Errorf("verifying part %s: %w", key, err))
	case gotBytes != bytes || gotSum != sum:
		return permanent(job.ErrorCorrupt, fmt.Errorf(
			"part %s is not what was accepted: it has %d bytes, %s, and had %d bytes, %s", key, gotBytes, formatSum(gotSum), bytes, formatSum(sum)))
	}
	return nil
}

// copyErrors writes the error records of the chain in order, one a line.
func copyErrors(ctx context.Context, dir store.Dir, links []link, w io.Writer) error {
	return entries(ctx, dir, links, func(e ownedEntry) error {
		if e.ErrBytes == 0 {
			return nil
		}
		return copyPartErrors(ctx, dir, errorsKey(e.run, e.Entry), e.Entry, w)
	})
}

func copyPartErrors(ctx context.Context, dir store.Dir, key string, e Entry, w io.Writer) error {
	body, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return verified(key, 0, e.ErrBytes, 0, e.ErrSum, err)
	}
	defer body.Close()
	sum := crc32.New(castagnoli)
	dec := json.NewDecoder(bufio.NewReader(io.TeeReader(body, sum)))
	for range e.Failed {
		var line struct {
			Failure json.RawMessage `json:"failure"`
		}
		if err := dec.Decode(&line); err != nil {
			return permanent(job.ErrorCorrupt, fmt.Errorf("reading part %s: %w", key, err))
		}
		if _, err := w.Write(append(line.Failure, '\n')); err != nil {
			return storeError(job.ErrorOutput, err)
		}
	}
	if _, err := io.Copy(io.Discard, io.MultiReader(dec.Buffered(), io.TeeReader(body, sum))); err != nil {
		return storeError(job.ErrorCorrupt, err)
	}
	return verified(key, e.ErrBytes, e.ErrBytes, sum.Sum32(), e.ErrSum, nil)
}

// Results copies a job's results, or its error records, to w in the order of its items: of a job
// that has not finished those that have been committed, up to the first item that has not. It
// returns the ordinal at which it ended; with a later report there may be more. from leaves out what
// lies before that ordinal, which must be one that an earlier call has returned, or 0.
func Results(ctx context.Context, access *store.Access, report job.Report, errorRecords bool, from int64, w io.Writer) (int64, error) {
	location, whole := wholeFile(report.Output, errorRecords)
	if whole && from == 0 {
		return report.Planned, copyFile(ctx, access, location, 0, w)
	}
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return from, err
	}
	links, err := chain(ctx, dir, report.Manifests)
	if err != nil {
		return from, err
	}
	var next, before int64 // ordinal; bytes of results, or records, before from
	errGap := errors.New("the next items are not there yet")
	err = entries(ctx, dir, links, func(e ownedEntry) error {
		if e.First != next {
			return errGap
		}
		next = e.End()
		switch {
		case e.First >= from && !whole:
			err := copyPart(ctx, dir, e, errorRecords, w)
			if errors.Is(err, fs.ErrNotExist) && !report.State.Final() && report.Redrive == nil {
				next = e.First // Finish has just put it into the output, which a later report names
				return errGap
			}
			return err
		case e.First < from && errorRecords:
			before += e.Failed
		case e.First < from:
			before += e.Bytes
		}
		return nil
	})
	if errors.Is(err, errGap) {
		err = nil
	}
	if err == nil && whole {
		err = copyRest(ctx, access, location, errorRecords, before, w)
	}
	return max(next, from), err
}

// copyRest copies what a whole file has behind the results, or the error records, before.
func copyRest(ctx context.Context, access *store.Access, location string, errorRecords bool, before int64, w io.Writer) error {
	if !errorRecords {
		return copyFile(ctx, access, location, before, w)
	}
	r, err := access.OpenInput(ctx, location, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	lines := bufio.NewReader(r)
	for range before {
		for more := true; more; {
			_, more, err = lines.ReadLine()
			if err != nil {
				return ignoreEOF(err)
			}
		}
	}
	_, err = io.Copy(w, lines)
	return err
}

func copyPart(ctx context.Context, dir store.Dir, e ownedEntry, errorRecords bool, w io.Writer) error {
	if errorRecords {
		if e.ErrBytes == 0 {
			return nil
		}
		return copyPartErrors(ctx, dir, errorsKey(e.run, e.Entry), e.Entry, w)
	}
	if e.Bytes == 0 {
		return nil
	}
	key := resultsKey(e.run, e.Entry)
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := crc32.New(castagnoli)
	n, err := io.Copy(w, io.TeeReader(r, sum))
	return verified(key, n, e.Bytes, sum.Sum32(), e.Sum, err)
}

// wholeFile tells which one file holds all that is asked for, where there is one.
func wholeFile(o *job.Output, errorRecords bool) (location string, whole bool) {
	switch {
	case o == nil:
		return "", false
	case errorRecords:
		return o.Errors, o.Errors != ""
	}
	return o.Location, o.Location != "" && !store.IsPrefix(o.Location)
}

func copyFile(ctx context.Context, access *store.Access, location string, offset int64, w io.Writer) error {
	r, err := access.OpenInput(ctx, location, offset, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}
