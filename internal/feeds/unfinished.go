package feeds

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// writeSpill writes items to the store, one a line.
func writeSpill(ctx context.Context, dir store.Dir, key string, format wire.Format, all []wire.FeedItems) (wire.Spill, error) {
	spill := wire.Spill{Key: key, First: all[0].First, Session: all[0].Session, Format: format}
	w := inputs.NewSpoolWriter(ctx, dir, key)
	defer w.Abort()
	var line bytes.Buffer
	for _, r := range all {
		for i, item := range r.Items {
			line.Reset()
			if err := json.Compact(&line, item); err != nil {
				return spill, ledger.Permanent(job.ErrorInvalid, fmt.Errorf("item %d is not JSON: %w", r.First+int64(i), err))
			}
			spill.Longest = max(spill.Longest, line.Len())
			line.WriteByte('\n')
			spill.Sum = crc32.Update(spill.Sum, wire.CRC32C, line.Bytes())
			if err := w.Write(line.Bytes()); err != nil {
				return spill, err
			}
			spill.Count++
		}
	}
	spill.Bytes = w.Bytes
	return spill, w.End()
}

// readSpill calls each with the length of each line of a spill, without its end, in order. It fails unless the spill is
// what was written.
func readSpill(ctx context.Context, dir store.Dir, s *wire.Spill, each func(length int)) error {
	broken := func(err error) error {
		return fmt.Errorf("reading items %d to %d, which were copied to %s when the feed was stopped: %w", s.First, s.End()-1, s.Key, err)
	}
	body := inputs.OpenSpool(ctx, dir, s.Key, 0, s.Bytes)
	defer body.Close()
	var sum uint32
	var count, size int64
	lines := bufio.NewReaderSize(body, 64<<10)
	for length := 0; ; {
		piece, err := lines.ReadSlice('\n')
		sum, size = crc32.Update(sum, wire.CRC32C, piece), size+int64(len(piece))
		length += len(piece)
		switch {
		case err == nil:
			each(length - 1)
			count, length = count+1, 0
			continue
		case err == bufio.ErrBufferFull:
			continue
		case errors.Is(err, fs.ErrNotExist):
			return ledger.Permanent(job.ErrorCorrupt, broken(err))
		case err != io.EOF:
			return ledger.StoreError(job.ErrorCorrupt, broken(err))
		}
		break
	}
	if count != s.Count || size != s.Bytes || sum != s.Sum {
		return ledger.Permanent(job.ErrorCorrupt, broken(fmt.Errorf(
			"they have %d lines, %d bytes, %s, and had %d lines, %d bytes, %s", count, size, ledger.FormatSum(sum), s.Count, s.Bytes, ledger.FormatSum(s.Sum))))
	}
	return nil
}

// sourceOf is a spill as a source of batches, which are ranges of its bytes.
func sourceOf(s *wire.Spill, jobName string, shape wire.Shape) wire.Source {
	return wire.Source{URL: SourceName(jobName), Size: s.Bytes, Shape: shape, Spool: s.Key, Own: true, Spilled: true, Session: s.Session}
}

// OpenSpilled reads the items of a batch of a spill.
func OpenSpilled(ctx context.Context, dir store.Dir, source *wire.Source, jobName string, batch wire.Batch) (*Items, error) {
	body := inputs.OpenSpool(context.WithoutCancel(ctx), dir, source.Spool, batch.Offset, batch.Length)
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, ledger.StoreError(job.ErrorCorrupt, fmt.Errorf("reading %s of a feed: %w", batch, err))
	}
	items := make([]json.RawMessage, 0, bytes.Count(data, []byte("\n")))
	for line := range bytes.Lines(data) {
		items = append(items, bytes.TrimSuffix(line, []byte("\n")))
	}
	if int64(len(items)) != batch.Count || int64(len(data)) != batch.Length {
		return nil, ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("%s of a feed, in %s from byte %d on, are %d lines and %d bytes, and were %d bytes",
			batch, source.Spool, batch.Offset, len(items), len(data), batch.Length))
	}
	all, err := NewItems(jobName, batch, items, source.Shape)
	if err == nil {
		all.lines = true
	}
	return all, err
}
