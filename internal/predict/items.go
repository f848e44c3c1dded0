package predict

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
)

// FirstItem is one of the items that a job begins with.
type FirstItem struct {
	Ordinal int64
	Data    []byte // as a handler of the form gets it
	Text    bool   // it is a line of text, and not JSON
	Err     error  // why it is none; nil: it is one
}

// maxHeldInput is the most bytes of the standard input that FirstItems holds: it has to be read twice.
const maxHeldInput = 64 << 20

// FirstItems passes the items to take that a job begins with, so many at most, in the form that its handler gets. It
// returns how many the job has.
func FirstItems(
	ctx context.Context, access *store.Access, spec job.Spec, stdin io.Reader, form calls.Form, most int64, take func(FirstItem) error,
) (all int64, err error) {
	var held []byte
	if slices.Contains(spec.Inputs(), job.StandardInput) {
		if held, err = io.ReadAll(io.LimitReader(stdin, maxHeldInput+1)); err != nil {
			return 0, fmt.Errorf("reading the standard input: %w", err)
		}
		if len(held) > maxHeldInput {
			return 0, fmt.Errorf("the standard input has more than %d bytes, which is too much to be looked at beforehand: name a file", maxHeldInput)
		}
	}
	survey, err := TakeSurvey(ctx, access, spec, bytes.NewReader(held))
	if err != nil {
		return 0, err
	}
	from := inputs.New(access, bytes.NewReader(held))
	defer from.Close()
	at := int64(0)
	for i, source := range survey.sources {
		if at < most && source.items > 0 {
			if err := firstOf(ctx, from, survey, i, form, at, most, take); err != nil {
				return 0, ledger.Plain(err)
			}
		}
		at += source.items
	}
	return survey.Items, nil
}

// firstOf passes the items of a source, the first of which has the ordinal at, up to the one with the ordinal most.
func firstOf(ctx context.Context, from *inputs.Inputs, survey Survey, index int, form calls.Form, at, most int64, take func(FirstItem) error) error {
	reader, err := from.DryRange(ctx, survey.table, index, survey.sources[index].items)
	if err != nil {
		return err
	}
	defer reader.Close()
	var chunk records.Chunk
	for at < most {
		if err := reader.Next(&chunk, int(min(most-at, sampleChunkItems)), sampleChunkBytes); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		convert := calls.Conversion{Form: form, Shape: reader.Shape()}
		for i := range chunk.Items {
			item := FirstItem{Ordinal: at, Text: form == calls.Lines && records.TextLines(reader.Shape())}
			item.Data, item.Err = convert.Convert(&chunk.Items[i])
			if err := take(item); err != nil {
				return err
			}
			at++
		}
		reader.Done(chunk.Items)
	}
	return nil
}
