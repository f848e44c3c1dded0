package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/itchyny/gojq"

	"github.com/stint-run/stint/internal/base/jsonscan"
)

// pathTime is how long a result path may take for one answer.
const pathTime = 5 * time.Second

// resultPath picks the result in an answer.
type resultPath struct {
	text string
	code *gojq.Code
}

// parsePath returns a path in the syntax of jq, which has no environment, files or modules; nil for "".
func parsePath(text string) (*resultPath, error) {
	if text == "" {
		return nil, nil
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("result path %q: %w. Use a path such as .data.label", text, err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("result path %q: %w", text, err)
	}
	return &resultPath{text, code}, nil
}

// of returns the value at the path of a value in JSON, compact, of at most limit bytes.
func (p *resultPath) of(ctx context.Context, value []byte, limit int64) ([]byte, error) {
	in, err := decode(value)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pathTime)
	defer cancel()
	results := p.code.RunWithContext(ctx, in)
	var found []any
	for len(found) < 2 {
		v, ok := results.Next()
		if !ok {
			break
		}
		if err, failed := v.(error); failed {
			if errors.Is(err, context.DeadlineExceeded) {
				return nil, fmt.Errorf("it took more than %v", pathTime)
			}
			return nil, err
		}
		found = append(found, v)
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("it gives %s: a result is one, [%s] makes a list of them", map[bool]string{
			true: "no value", false: "several values"}[len(found) == 0], p.text)
	}
	out, err := gojq.Marshal(found[0])
	if err == nil && int64(len(out)) > limit {
		err = fmt.Errorf("it gives %d bytes, of at most %d", len(out), limit)
	}
	return out, err
}

// decode returns a value in JSON, its numbers as they are written.
func decode(value []byte) (any, error) {
	if jsonscan.TooDeep(value) {
		return nil, fmt.Errorf("it is nested more than %d deep", jsonscan.MaxNesting)
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more behind the value")
	}
	return v, nil
}
