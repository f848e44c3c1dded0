package unique

import "os"

// scratch is a temporary file that is written from its beginning to its end, and read anywhere. One goroutine may use
// it. What is written last is in memory, and so is all of it if it is little.
type scratch struct {
	dir  string // empty: that of temporary files
	file *os.File
	end  int64  // of what is in the file
	tail []byte // what follows
}

// scratchTail is how many bytes are written at once.
const scratchTail = 256 << 10

// write appends data, and returns where it begins.
func (s *scratch) write(data []byte) (at int64, err error) {
	at = s.end + int64(len(s.tail))
	if s.tail = append(s.tail, data...); len(s.tail) < scratchTail {
		return at, nil
	}
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, ".stint-equal-*"); err != nil {
			return 0, err
		}
		_ = os.Remove(s.file.Name()) // it is open, and nobody else needs its name
	}
	if _, err := s.file.Write(s.tail); err != nil {
		return 0, err
	}
	s.end += int64(len(s.tail))
	s.tail = s.tail[:0]
	return at, nil
}

// read reads as much as there is from an offset on.
func (s *scratch) read(data []byte, at int64) (int, error) {
	n := 0
	if at < s.end {
		var err error
		if n, err = s.file.ReadAt(data[:min(int64(len(data)), s.end-at)], at); err != nil {
			return n, err
		}
	}
	if n < len(data) {
		n += copy(data[n:], s.tail[at+int64(n)-s.end:])
	}
	return n, nil
}

func (s *scratch) close() {
	if s.file != nil {
		_ = s.file.Close() // nothing of it is kept
	}
}

// chunkRecords is how many records of a partition are written at once.
const chunkRecords = 512

// spill has records of one size in partitions, each in the order in which its records came.
type spill struct {
	scratch scratch
	size    int // of a record
	parts   []partition
}

type partition struct {
	chunks []int64 // where they lie, each of chunkRecords records
	last   []byte  // what follows
	count  int64   // of all records
}

func newSpill(dir string, size, parts int) *spill {
	return &spill{scratch: scratch{dir: dir}, size: size, parts: make([]partition, parts)}
}

// add appends a record to a partition.
func (s *spill) add(part int, record []byte) error {
	p := &s.parts[part]
	p.count++
	if p.last = append(p.last, record...); len(p.last) < chunkRecords*s.size {
		return nil
	}
	at, err := s.scratch.write(p.last)
	p.chunks, p.last = append(p.chunks, at), p.last[:0]
	return err
}

// each calls fn with the records of a partition, until it returns an error.
func (s *spill) each(part int, fn func(record []byte) error) error {
	p := &s.parts[part]
	chunk := make([]byte, chunkRecords*s.size)
	for _, at := range p.chunks {
		if _, err := s.scratch.read(chunk, at); err != nil {
			return err
		}
		if err := s.records(chunk, fn); err != nil {
			return err
		}
	}
	return s.records(p.last, fn)
}

func (s *spill) records(chunk []byte, fn func(record []byte) error) error {
	for ; len(chunk) > 0; chunk = chunk[s.size:] {
		if err := fn(chunk[:s.size]); err != nil {
			return err
		}
	}
	return nil
}

func (s *spill) close() { s.scratch.close() }
