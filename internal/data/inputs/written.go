package inputs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// written recognises what jobs have written among files that were found by a directory or pattern: such files are never
// data, with one exception. An output that keeps its parts is its parts, in their order. What an argument names itself
// is read as it is, whatever it is: somebody may want to look into error records.
type written struct {
	ctx    context.Context
	access ledger.Access
	places map[string]*outputDir // by directory
}

// outputDir is a directory, or the prefix of a bucket. The zero value is one that no job writes to.
type outputDir struct {
	isStore bool
	listed  bool            // it has the list of its parts: the job has finished
	parts   []string        // their URLs, in order
	isPart  map[string]bool // by URL
	given   bool            // the parts were taken already
	shape   *wire.Shape     // of the parts; nil: not known yet
}

// currentKey is the name of the object by which a store is known: see [wire.Ref].
const currentKey = "CURRENT"

// storeDepth is how deep files lie in a store.
const storeDepth = 4

// storeFiles are names of objects that lie in a store beside its runs.
var storeFiles = []string{currentKey, partsList, "SPLIT", "errors.jsonl"}

var (
	runPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f-]{27} `)
	partList   = []byte(`{"part":"`)
	errorLine  = regexp.MustCompile(`^\{"item":[0-9]+,("stage":"[^"]*",)?"source":"`)
)

// dirOf returns the directory that a file which was found below arg lies in, if a job writes to that; nil: it lies in
// none.
func (w *written) dirOf(arg, url string) (*outputDir, error) {
	if !filepath.IsAbs(url) {
		return w.placeInBucket(arg, url)
	}
	dir := filepath.Dir(url)
	for range storeDepth {
		p, err := w.look(dir + string(filepath.Separator))
		if p != nil || err != nil {
			return p, err
		}
		dir = filepath.Dir(dir)
	}
	return nil, nil
}

// placeInBucket is placeOf for an object in a bucket. A bucket may have any number of prefixes, each of which would
// cost a request: only those are looked at below which an object has a name of a store's.
func (w *written) placeInBucket(arg, url string) (*outputDir, error) {
	if strings.HasPrefix(arg, "file:") {
		return nil, nil
	}
	if location.IsPrefix(arg) {
		if p, err := w.look(arg); p != nil || err != nil {
			return p, err
		}
	}
	rest, query := location.SplitQuery(url)
	elements := strings.Split(rest, "/")
	const scheme = 3 // "s3:", "", and the bucket
	for at := scheme; at < len(elements); at++ {
		last := at == len(elements)-1
		if runPattern.MatchString(elements[at]+" ") || last && slices.Contains(storeFiles, elements[at]) {
			if p, err := w.look(strings.Join(elements[:at], "/") + "/" + query); p != nil || err != nil {
				return p, err
			}
		}
	}
	return nil, nil
}

// look returns what is known of a directory; nil: no job writes to it.
func (w *written) look(dir string) (*outputDir, error) {
	if p, ok := w.places[dir]; ok {
		return p.orNil(), nil
	}
	p := &outputDir{isPart: map[string]bool{}}
	begins, err := w.beginning(location.Append(dir, currentKey))
	if err == nil {
		p.isStore = runPattern.Match(append(begins, ' '))
	}
	if p.isStore {
		err = w.readList(dir, p)
	}
	if err != nil && !noStore(err) {
		return nil, ledger.StoreError(job.ErrorInput, err)
	}
	w.places[dir] = p
	return p.orNil(), nil
}

// noStore reports whether an error says that what has a store's name is no file that stint has written, or may be read.
func noStore(err error) bool {
	kinds := []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid, syscall.EISDIR, syscall.ENOTDIR}
	_, denied := errors.AsType[*store.DeniedError](err)
	return denied || slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

func (p *outputDir) orNil() *outputDir {
	if !p.isStore {
		return nil
	}
	return p
}

// readList reads the list of an output's parts.
func (w *written) readList(dir string, p *outputDir) error {
	r, err := w.access.OpenInput(w.ctx, location.Append(dir, partsList), 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	lines := json.NewDecoder(r)
	for {
		var part struct{ Part string }
		if err := lines.Decode(&part); err == io.EOF {
			p.listed = true
			return nil
		} else if err != nil {
			return fmt.Errorf("reading the list of parts in %s: %w", dir, err)
		}
		url := location.Append(dir, part.Part)
		p.parts, p.isPart[url] = append(p.parts, url), true
	}
}

// beginning returns the first bytes of a file.
func (w *written) beginning(url string) ([]byte, error) {
	r, err := w.access.OpenInput(w.ctx, url, 0, 256)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// isOther reports whether a file that lies in no place of a job has error records, or is a list of parts.
func (w *written) isOther(input store.Input) (bool, error) {
	_, name, err := store.SplitName(input.URL)
	isErrors := strings.HasSuffix(name, "errors.jsonl")
	if err != nil || input.Size == 0 || !isErrors && name != partsList {
		return false, nil
	}
	begins, err := w.beginning(input.URL)
	if err != nil {
		return false, ledger.StoreError(job.ErrorInput, err)
	}
	return isErrors && errorLine.Match(begins) || !isErrors && bytes.HasPrefix(begins, partList), nil
}

// shapeOf returns the shape of an output's parts, whose names do not show it: JSON lines if the first result is JSON,
// and otherwise text.
func (w *written) shapeOf(p *outputDir) (wire.Shape, error) {
	if p.shape != nil {
		return *p.shape, nil
	}
	shape := wire.Shape{Format: records.JSONL}
	if len(p.parts) > 0 {
		r, err := w.access.OpenInput(w.ctx, p.parts[0], 0, limits.DefaultMaxItem)
		if err != nil {
			return shape, ledger.StoreError(job.ErrorInput, err)
		}
		defer r.Close()
		line, err := bufio.NewReader(r).ReadBytes('\n')
		if err != nil && err != io.EOF {
			return shape, ledger.StoreError(job.ErrorInput, err)
		}
		if !json.Valid(line) {
			shape.Format = records.Text
		}
	}
	p.shape = &shape
	return shape, nil
}
