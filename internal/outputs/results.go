package outputs

import (
	"bufio"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Results copies a job's results, or its error records, to w in the order of its items. Of a job that
// has not finished it copies those that have been committed, up to the first item that has not. It
// returns the ordinal at which it ended; with a later report there may be more. It begins at the ordinal
// from, which must be one that an earlier call has returned, or 0.
func Results(ctx context.Context, access ledger.Access, report job.Report, errorRecords bool, from int64, w io.Writer) (int64, error) {
	location, whole := wholeFile(report.Output, errorRecords)
	if whole && from == 0 {
		return report.Planned, copyFile(ctx, access, location, 0, w)
	}
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return from, err
	}
	links, err := ledger.Chain(ctx, dir, report.Manifests)
	if err != nil {
		return from, err
	}
	var next, before int64 // ordinal; bytes of results, or records, before from
	errGap := errors.New("the next items are not there yet")
	err = ledger.Entries(ctx, dir, links, func(e ledger.OwnedEntry) error {
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

// copyRest copies the rest of a whole file, after the results, or the error records, before.
func copyRest(ctx context.Context, access ledger.Access, location string, errorRecords bool, before int64, w io.Writer) error {
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
				return inputs.IgnoreEOF(err)
			}
		}
	}
	_, err = io.Copy(w, lines)
	return err
}

func copyPart(ctx context.Context, dir store.Dir, e ledger.OwnedEntry, errorRecords bool, w io.Writer) error {
	if errorRecords {
		if e.ErrBytes == 0 {
			return nil
		}
		return ledger.CopyPartErrors(ctx, dir, ledger.ErrorsKey(e.Owner, e.Entry), e.Entry, w)
	}
	if e.Bytes == 0 {
		return nil
	}
	key := ledger.ResultsKey(e.Owner, e.Entry)
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := crc32.New(ledger.CRC32C)
	n, err := io.Copy(w, io.TeeReader(r, sum))
	return ledger.Verified(key, n, e.Bytes, sum.Sum32(), e.Sum, err)
}

// wholeFile returns the one file that holds all results, or all error records, if there is one.
func wholeFile(o *job.Output, errorRecords bool) (location string, whole bool) {
	switch {
	case o == nil:
		return "", false
	case errorRecords:
		return o.Errors, o.Errors != ""
	}
	return o.Location, o.Location != "" && !store.IsPrefix(o.Location)
}

func copyFile(ctx context.Context, access ledger.Access, location string, offset int64, w io.Writer) error {
	r, err := access.OpenInput(ctx, location, offset, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}
