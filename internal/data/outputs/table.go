package outputs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// tables append a row to a table, by the extension of its name: see [location.Table].
var tables = map[string]func(buf []byte, cells [][]byte) []byte{".csv": separated(','), ".tsv": separated('\t'), ".tab": separated('\t')}

// publishTable makes a table of the results: a row for each, of the parts, which the store keeps.
func (p *Publication) publishTable(ctx context.Context, publishSides func(context.Context) error, _ func(context.Context) (Begun, error)) error {
	return p.publishFile(ctx, publishSides, p.joinTable)
}

// tableBuffer is how many bytes of a table are written at once.
const tableBuffer = 1 << 20

// lineBuffer is how many bytes of a part are read at once, for its lines.
const lineBuffer = 256 << 10

// table writes the results as rows.
type table struct {
	p       *Publication
	append  func(buf []byte, cells [][]byte) []byte
	columns []string
	index   map[string]int // of each column
	seen    bool           // a result
	lines   bool           // the results are rows as they are
	to      *store.Joining
	buf     []byte
	cells   [][]byte // of one row, as JSON; nil: none
}

// errLines says that the first result is no object: a filter, say, has written rows itself.
var errLines = errors.New("the first result is not a JSON object")

// joinTable writes the table. It goes through the parts twice unless the spec names the columns: their names come
// first. If it does not, and the first result is no object, the results are the table's lines as they are.
func (p *Publication) joinTable(ctx context.Context) (Begun, error) {
	t := &table{p: p, append: tables[location.Table(p.Spec.Output)], columns: slices.Clone(p.Spec.Columns), index: map[string]int{}}
	for i, name := range t.columns {
		t.index[name] = i
	}
	if len(t.columns) == 0 {
		err := t.eachResult(ctx, t.addKeys)
		if t.lines = errors.Is(err, errLines); err != nil && !t.lines {
			return Begun{}, err
		}
	}
	to, name, err := OpenTarget(ctx, p.Access, p.Spec.Output, p.Ref.Perm)
	if err != nil {
		return Begun{}, err
	}
	if t.to, err = store.BeginJoin(ctx, to, name, store.JoinOptions{Scratch: Scratch(p.Dir, p.Ref), Encode: Encoding(p.Spec.Output)}); err != nil {
		return Begun{}, ledger.StoreError(job.ErrorOutput, err)
	}
	if err := t.write(ctx); err != nil {
		t.to.Abort()
		return Begun{}, err
	}
	return Begun{Joining: t.to, Parts: AllParts}, nil
}

// eachResult calls fn with each result, a line, and verifies the parts.
func (t *table) eachResult(ctx context.Context, fn func(line []byte) error) error {
	err := ledger.Entries(ctx, t.p.Dir, t.p.Links, func(e ledger.OwnedEntry) error {
		if e.Bytes == 0 {
			return nil
		}
		result := 0
		var refused error
		err := eachLine(ctx, t.p.Dir, e, io.Discard, func(line []byte) error {
			if result++; refused != nil {
				return nil // the rest is only verified
			}
			line = line[:len(line)-1]
			err := fn(line)
			if _, ok := errors.AsType[*notObjectError](err); ok {
				refused, err = t.refuse(result, e, line), nil
			}
			return err
		})
		return cmp.Or(err, refused)
	})
	return ledger.StoreError(job.ErrorOutput, err)
}

// eachLine calls fn with each line of a part's results, adds the results to also, and verifies them.
func eachLine(
	ctx context.Context, dir store.Dir, e ledger.OwnedEntry, also io.Writer, fn func(line []byte) error,
) error {
	body, err := ledger.OpenSummed(ctx, dir, ledger.ResultsKey(e.Owner, e.Entry))
	if err != nil {
		return err
	}
	defer body.Close()
	lines := ledger.NewLines(io.TeeReader(body, also), lineBuffer)
	for {
		line, err := lines.Next()
		switch {
		case err == io.EOF:
			return body.Verify(e.Bytes, e.Sum)
		case err != nil:
			return body.Broken(err)
		}
		if err := fn(line); err != nil {
			return err
		}
	}
}

// refuse returns the error of a result that is not a row.
func (t *table) refuse(result int, e ledger.OwnedEntry, line []byte) error {
	const shown = 80
	return ledger.Permanent(job.ErrorOutput, fmt.Errorf(
		"output %s: result %d of items %d to %d is not a JSON object, so it cannot become a row: %q; the results are kept, and 'stint results %s' prints them as they are",
		t.p.Spec.Output, result, e.First, e.End()-1, text.Cut(string(line), shown), t.p.Ref.Job))
}

// addKeys adds the keys of a result that have no column yet.
func (t *table) addKeys(line []byte) error {
	first := !t.seen
	t.seen = true
	err := eachMember(line, func(key, _ []byte) error {
		if _, known := t.index[string(key)]; known {
			return nil
		}
		if len(t.columns) == limits.MaxColumns {
			return ledger.Permanent(job.ErrorOutput, fmt.Errorf(
				"output %s: the results have more than %s keys, and one is %q: name the columns with --columns and run the same command again",
				t.p.Spec.Output, text.Thousands(limits.MaxColumns), text.Cut(string(key), 80)))
		}
		t.index[string(key)] = len(t.columns)
		t.columns = append(t.columns, string(key))
		return nil
	})
	if first && errors.As(err, new(*notObjectError)) {
		return errLines
	}
	return err
}

// write writes header and rows.
func (t *table) write(ctx context.Context) error {
	switch {
	case t.lines:
		return t.writeLines(ctx)
	case len(t.columns) == 0:
		return nil // there is no result, or none with a key
	}
	header := make([][]byte, len(t.columns))
	for i, name := range t.columns {
		header[i] = []byte(name)
	}
	t.buf = t.append(t.buf, header)
	t.cells = make([][]byte, len(t.columns))
	texts := make([][]byte, len(t.columns))
	err := t.eachResult(ctx, func(line []byte) error {
		clear(t.cells)
		err := eachMember(line, func(key, value []byte) error {
			if i, known := t.index[string(key)]; known {
				t.cells[i] = value
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, value := range t.cells {
			texts[i] = cellText(value)
		}
		t.buf = t.append(t.buf, texts)
		return t.flush(tableBuffer)
	})
	if err != nil {
		return err
	}
	return t.flush(0)
}

// writeLines writes the results as they are.
func (t *table) writeLines(ctx context.Context) error {
	err := t.eachResult(ctx, func(line []byte) error {
		t.buf = append(append(t.buf, line...), '\n')
		return t.flush(tableBuffer)
	})
	if err != nil {
		return err
	}
	return t.flush(0)
}

// flush writes the rows in hand if they have as many bytes as that.
func (t *table) flush(least int) error {
	if len(t.buf) < least {
		return nil
	}
	piece := store.Piece{Key: t.p.Spec.Output, Length: int64(len(t.buf)), Sum: crc32.Checksum(t.buf, wire.CRC32C)}
	err := t.to.AppendHeld(piece, [][]byte{t.buf})
	t.buf = t.buf[:0]
	return ledger.StoreError(job.ErrorOutput, err)
}

// separated appends a record as RFC 4180 has it, with '\n' as its end. One that would be a blank line is quoted.
func separated(delimiter byte) func(buf []byte, cells [][]byte) []byte {
	return func(buf []byte, cells [][]byte) []byte {
		for i, cell := range cells {
			if i > 0 {
				buf = append(buf, delimiter)
			}
			blank := len(cells) == 1 && len(bytes.Trim(cell, " \t")) == 0
			if !blank && bytes.IndexByte(cell, delimiter) < 0 && !bytes.ContainsAny(cell, "\"\r\n") {
				buf = append(buf, cell...)
				continue
			}
			buf = append(buf, '"')
			buf = append(buf, bytes.ReplaceAll(cell, []byte{'"'}, []byte(`""`))...)
			buf = append(buf, '"')
		}
		return append(buf, '\n')
	}
}

// cellText returns what a cell has of a value: of a string its text, of null nothing, of all else its JSON.
func cellText(value []byte) []byte {
	switch {
	case len(value) == 0 || string(value) == "null":
		return nil
	case value[0] != '"':
		return value
	}
	if inside := value[1 : len(value)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return value
	}
	return []byte(s)
}

// notObjectError reports a line that is not a JSON object.
type notObjectError struct{}

func (*notObjectError) Error() string { return "not a JSON object" }

// eachMember calls fn with each key of a JSON object, as a text, and its value in JSON, in their order. They are valid
// as long as the line. It returns a *notObjectError, if the line is something else, perhaps after some calls.
func eachMember(line []byte, fn func(key, value []byte) error) error {
	i := jsonscan.Space(line, 0)
	if end, _ := jsonscan.Value(line, i); end < 0 || line[i] != '{' || jsonscan.Space(line, end) != len(line) {
		return eachMemberSlowly(line, fn) // jsonscan is not sure of it
	}
	for i = jsonscan.Space(line, i+1); line[i] != '}'; i = jsonscan.Space(line, i) {
		if line[i] == ',' {
			i = jsonscan.Space(line, i+1)
		}
		from := i
		i, _ = jsonscan.Value(line, i)
		key := cellText(line[from:i])
		from = jsonscan.Space(line, jsonscan.Space(line, i)+1) // behind the colon
		i, _ = jsonscan.Value(line, from)
		if err := fn(key, line[from:i]); err != nil {
			return err
		}
	}
	return nil
}

// eachMemberSlowly is eachMember for objects that are nested deeply, and for what is none.
func eachMemberSlowly(line []byte, fn func(key, value []byte) error) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') || !json.Valid(line) {
		return &notObjectError{}
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return inputs.IgnoreEOF(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := fn([]byte(key.(string)), value); err != nil {
			return err
		}
	}
	return nil
}
