package activities

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// partWriter writes one object of a part; an object that would be empty is never made.
type partWriter struct {
	dir   store.Dir
	key   string
	bulk  bool // not to be read soon
	w     store.Writer
	bytes int64
	sum   uint32
}

func (p *partWriter) write(ctx context.Context, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if p.w == nil {
		create := p.dir.Create
		if p.bulk {
			create = func(ctx context.Context, key string) (store.Writer, error) { return store.CreateBulk(ctx, p.dir, key) }
		}
		w, err := create(ctx, p.key)
		if err != nil {
			return storeError(job.ErrorOutput, err)
		}
		p.w = w
	}
	if _, err := p.w.Write(data); err != nil {
		return storeError(job.ErrorOutput, err)
	}
	p.bytes += int64(len(data))
	p.sum = crc32.Update(p.sum, castagnoli, data)
	return nil
}

func (p *partWriter) commit() error {
	if p.w == nil {
		return nil
	}
	return storeError(job.ErrorOutput, p.w.Commit())
}

func (p *partWriter) abort() {
	if p.w != nil {
		p.w.Abort()
	}
}

// failureLine is one line of a part's errors: the record, and where in the part's results the
// item's own result would have been.
type failureLine struct {
	At      int64       `json:"at"`
	Failure job.Failure `json:"failure"`
	again
}

// failureInput is an item's input as an error record keeps it.
func failureInput(shape *records.Shape, item *records.Item) json.RawMessage {
	if item.Raw == nil { // too long to keep
		return json.RawMessage("null")
	}
	if shape.Format != records.Text || !utf8.Valid(item.Raw) {
		if value, err := shape.AppendJSON(nil, item); err == nil {
			return value
		}
	}
	var value any = string(item.Raw)
	if !utf8.Valid(item.Raw) {
		value = struct {
			Base64 string `json:"base64"`
		}{base64.StdEncoding.EncodeToString(item.Raw)}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}
