package failures

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/job"
)

// Records is a writer of error records, one a line: it calls Each with every one of them. The line has its end, and is
// valid during the call; the failure is without Input and Partial.
type Records struct {
	Each func(line []byte, f *job.Failure) error
	rest []byte // of a line

	decoding codec.Codec // of failure
	failure  struct {    // without the item's data, which is not decoded
		Item     int64     `json:"item"`
		Stage    string    `json:"stage"`
		Source   string    `json:"source"`
		Kind     string    `json:"kind"`
		Error    job.Error `json:"error"`
		Attempts int       `json:"attempts"`
	}
}

// Write takes any part of the lines.
func (r *Records) Write(data []byte) (int, error) {
	for left := data; ; {
		line, after, ended := bytes.Cut(left, []byte("\n"))
		if !ended {
			r.rest = append(r.rest, left...)
			return len(data), nil
		}
		line = left[:len(line)+1]
		if len(r.rest) > 0 {
			r.rest = append(r.rest, line...)
			line = r.rest
		}
		if err := r.one(line); err != nil {
			return 0, err
		}
		r.rest, left = r.rest[:0], after
	}
}

func (r *Records) one(line []byte) error {
	if r.decoding == nil {
		r.decoding = codec.ForDecoding(reflect.TypeOf(r.failure))
	}
	r.failure = Records{}.failure
	f := &r.failure
	if err := r.decoding.Unmarshal(line, f); err != nil {
		return fmt.Errorf("reading an error record: %w", err)
	}
	return r.Each(line, &job.Failure{Item: f.Item, Stage: f.Stage, Source: f.Source, Kind: f.Kind, Error: f.Error, Attempts: f.Attempts})
}
