package outputs

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// maxUnspilled is how many bytes of results a split holds in memory. With more, all of them go to one object of the
// store, file by file, from where they are copied in the end: memory and open files are bounded, whatever the values
// are.
const maxUnspilled = 64 << 20

// splitter splits the results of a run by the value of a field. It reads them in their order, then writes each file
// under a temporary name, and publishes all at the end.
type splitter struct {
	p      *Publication
	to     store.Dir // of the files
	name   string    // of a file, with the placeholder
	files  map[string]*splitFile
	limit  int64 // of held
	held   int64 // bytes
	prefix string
	spills []string // keys

	others []func(context.Context) error // remove those of them that the run does not have
	last   store.Writer                  // of the list, once all is published; nil: not begun
}

// splitFile is a file that gets the results with one value.
type splitFile struct {
	name   string
	held   []byte
	pieces []spilled // those before
	bytes  int64
	sum    uint32
	w      store.Writer // written, perhaps published; nil: not written
	put    bool         // published in a bucket
}

// spilled are some bytes of a spill.
type spilled struct {
	key            string
	offset, length int64
}

// newSplitter returns the splitter of the output: nil, whose methods do nothing, if its results are not split.
func (p *Publication) newSplitter(ctx context.Context) (*splitter, error) {
	if p.Spec.Split == "" {
		return nil, nil
	}
	to, name, err := OpenTarget(ctx, p.Access, p.Spec.Output, p.Ref.Perm)
	if err != nil {
		return nil, err
	}
	return &splitter{
		p: p, to: to, name: name, files: map[string]*splitFile{}, limit: maxUnspilled,
		prefix: path.Join(p.Ref.Run, "split-"+ledger.NewToken()),
	}, nil
}

// part splits the results of a part, verifies them, and adds them to also.
func (s *splitter) part(ctx context.Context, e ledger.OwnedEntry, also io.Writer) error {
	return eachLine(ctx, s.p.Dir, e, also, func(line []byte) error { return s.add(ctx, line) })
}

// add puts a result into its file.
func (s *splitter) add(ctx context.Context, line []byte) error {
	name := fileOf(line[:len(line)-1], s.p.Spec.SplitField())
	f := s.files[name]
	if f == nil {
		if len(s.files) == limits.MaxSplitFiles {
			return ledger.Permanent(job.ErrorOutput, fmt.Errorf(
				"output %s: the results have more than %d values of %s, and may be split into %d files: 'stint results' prints them all; start the job anew, to split them by another field or not at all",
				s.p.Spec.Output, limits.MaxSplitFiles, s.p.Spec.Split, limits.MaxSplitFiles))
		}
		f = &splitFile{name: location.Fill(s.name, name)}
		s.files[name] = f
	}
	f.held = append(f.held, line...)
	f.bytes += int64(len(line))
	f.sum = crc32.Update(f.sum, wire.CRC32C, line)
	if s.held += int64(len(line)); s.held < s.limit {
		return nil
	}
	return s.spill(ctx)
}

// sorted returns the files in the order of their names.
func (s *splitter) sorted() []*splitFile {
	var files []*splitFile
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		files = append(files, s.files[name])
	}
	return files
}

// spill puts what is in memory into the store.
func (s *splitter) spill(ctx context.Context) error {
	key := path.Join(s.prefix, fmt.Sprint(len(s.spills)))
	w, err := store.CreateBulk(ctx, s.p.Dir, key)
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	defer w.Abort() // does nothing after a commit
	s.spills = append(s.spills, key)
	offset := int64(0)
	for _, f := range s.sorted() {
		if len(f.held) == 0 {
			continue
		}
		if _, err := w.Write(f.held); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
		f.pieces = append(f.pieces, spilled{key, offset, int64(len(f.held))})
		offset += int64(len(f.held))
		f.held = nil
	}
	s.held = 0
	return ledger.StoreError(job.ErrorOutput, w.Commit())
}

// count returns how many files there are.
func (s *splitter) count() int {
	if s == nil {
		return 0
	}
	return len(s.files)
}

// write writes all files under temporary names, for publish. A bucket has none: there each file is published as soon as
// it is written, while the store names the run as the current one.
func (s *splitter) write(ctx context.Context) error {
	if s == nil {
		return nil
	}
	_, local := s.to.Local()
	if err := s.announce(ctx); err != nil {
		return err
	}
	for _, f := range s.sorted() {
		w, err := s.writeFile(ctx, f)
		if err != nil {
			return err
		}
		f.w = w
		if local {
			_, err = store.Settle(w)
		} else {
			err = ledger.WhileCurrent(ctx, s.p.Ref, s.p.Dir, func(context.Context) error { return w.Commit() })
		}
		if err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
		f.put = !local
	}
	return s.prepareEnd(ctx)
}

// writeFile writes a file, which is then to be committed.
func (s *splitter) writeFile(ctx context.Context, f *splitFile) (w store.Writer, err error) {
	if w, err = store.CreateSized(ctx, s.to, f.name, f.bytes, Scratch(s.p.Dir, s.p.Ref)); err != nil {
		return nil, ledger.StoreError(job.ErrorOutput, err)
	}
	defer func() {
		if err != nil {
			w.Abort()
			w = nil
		}
	}()
	var written wire.SideFile
	err = encode(f.name, w, func(w io.Writer) error {
		to := io.MultiWriter(w, &written)
		for _, piece := range f.pieces {
			if err := s.copyPiece(ctx, to, piece); err != nil {
				return err
			}
		}
		_, err := to.Write(f.held)
		return err
	})
	if err != nil {
		return w, ledger.StoreError(job.ErrorOutput, err)
	}
	return w, ledger.Verified(f.name, written.Bytes, f.bytes, written.Sum, f.sum, nil)
}

func (s *splitter) copyPiece(ctx context.Context, w io.Writer, piece spilled) error {
	r, err := s.p.Dir.Open(ctx, piece.key, piece.offset, piece.length)
	if err == nil {
		_, err = io.Copy(w, r)
		r.Close()
	}
	return ledger.StoreError(job.ErrorCorrupt, err)
}

// publish makes visible what write has written under temporary names, and removes the files that an earlier run has
// left there and this one does not have.
func (s *splitter) publish(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if _, local := s.to.Local(); local {
		for _, f := range s.sorted() {
			if err := f.w.Commit(); err != nil {
				return ledger.StoreError(job.ErrorOutput, err)
			}
		}
	}
	return s.end(ctx)
}

// close gives up what is not published, and removes the spills.
func (s *splitter) close(ctx context.Context) {
	if s == nil {
		return
	}
	for _, f := range s.files {
		if f.w != nil {
			f.w.Abort()
		}
	}
	if s.last != nil {
		s.last.Abort()
	}
	for _, key := range s.spills {
		_ = s.p.Dir.Delete(ctx, key) // otherwise the run's sweep removes it
	}
}

// fileOf returns what stands for the value of a field in the name of the file that a result goes to.
func fileOf(result []byte, field string) string {
	value, ok := records.Field(result, field)
	if !ok || len(value) == 0 {
		return location.NoValue
	}
	switch value[0] {
	case '{', '[', 'n':
		return location.NoValue
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return location.NoValue
		}
		return location.ValueName(text)
	}
	return location.ValueName(string(value))
}
