package local

import (
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/stint-run/stint/internal/base/trap"
)

const (
	// aheadBuffer is what is written to a file at once; blockSize, which it is a multiple of, is the
	// alignment that every disk accepts.
	aheadBuffer = 1 << 20
	blockSize   = 4096
	// aheadDepth is how many buffers a file has at most: whoever writes some MiB at a time does not
	// wait for the disk.
	aheadDepth = 8
	// partWindow is how much of a file that goes through the page cache is written before the disk
	// starts on it: Commit then finds most of the work done. For a large file it is bulkWindow, and
	// at most bulkAhead bytes wait for the disk: even with a slow disk the last sync is short, and
	// memory does not fill up with unwritten data.
	partWindow = 1 << 20
	bulkWindow = 4 << 20
	bulkAhead  = 64 << 20
)

// block is a buffer that a disk can take without a copy of it.
type block struct{ data []byte }

var blocks = sync.Pool{New: func() any {
	room := make([]byte, aheadBuffer+blockSize)
	skip := blockSize - int(uintptr(unsafe.Pointer(unsafe.SliceData(room)))%blockSize)
	return &block{room[skip : skip : skip+aheadBuffer]}
}}

func newBlock() *block { return blocks.Get().(*block) }

func (b *block) release() {
	b.data = b.data[:0]
	blocks.Put(b)
}

// ahead writes a file from its own goroutine, a full buffer at a time, while the next one is filled.
// What fits into one buffer is written without a goroutine.
type ahead struct {
	disk   pacer
	filled *block      // being filled; nil before the first byte and after the end
	full   chan *block // to the goroutine; nil while there is none
	free   chan *block // back from it
	made   int         // buffers in use
	handed int64       // bytes that the goroutine has got
	failed atomic.Pointer[error]
	synced bool
}

func (a *ahead) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if a.filled == nil {
			a.filled = newBlock()
		}
		if len(a.filled.data) == aheadBuffer {
			if err := a.handOver(); err != nil {
				return n, err
			}
		}
		part := p[:min(len(p), aheadBuffer-len(a.filled.data))]
		a.filled.data = append(a.filled.data, part...)
		p, n = p[len(part):], n+len(part)
	}
	return n, nil
}

// handOver passes the full buffer to the goroutine and takes an empty one.
func (a *ahead) handOver() error {
	if a.full == nil {
		a.full, a.free, a.made = make(chan *block, aheadDepth), make(chan *block, aheadDepth), 1
		full, free := a.full, a.free
		trap.Watched("writing a file", func(err error) { a.failed.Store(&err) }, func() { a.drain(full, free) })
	}
	a.handed += int64(len(a.filled.data))
	a.full <- a.filled
	a.filled = a.next()
	if failed := a.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// next returns an empty buffer.
func (a *ahead) next() *block {
	if a.made == aheadDepth {
		return <-a.free
	}
	select {
	case b := <-a.free:
		return b
	default:
		a.made++
		return newBlock()
	}
}

func (a *ahead) drain(full <-chan *block, free chan<- *block) {
	defer close(free)
	for b := range full {
		if a.failed.Load() == nil {
			err := trap.Call("writing a file", func() error {
				_, err := a.disk.Write(b.data)
				return err
			})
			if err != nil {
				a.failed.Store(&err)
			}
		}
		b.data = b.data[:0]
		free <- b
	}
}

// join waits until the goroutine has written all its buffers, and ends it.
func (a *ahead) join() error {
	if a.full != nil {
		close(a.full)
		for b := range a.free {
			b.release()
		}
		a.full = nil
	}
	if failed := a.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// aheadMark is a place in a file.
type aheadMark struct {
	handed int64
	rest   []byte // behind that
}

// mark returns the place up to which the file is written now.
func (a *ahead) mark() aheadMark {
	m := aheadMark{handed: a.handed}
	if a.filled != nil {
		m.rest = slices.Clone(a.filled.data)
	}
	return m
}

// undo takes back what was written behind a mark.
func (a *ahead) undo(m aheadMark) error {
	if err := a.join(); err != nil {
		return err
	}
	if err := a.disk.cut(m.handed); err != nil {
		return err
	}
	if a.filled == nil {
		a.filled = newBlock()
	}
	a.handed, a.filled.data = m.handed, append(a.filled.data[:0], m.rest...)
	return nil
}

// sync writes what is left and brings the whole to the disk. Nothing is written after it.
func (a *ahead) sync() error {
	if a.synced {
		return nil
	}
	if err := a.join(); err != nil {
		return err
	}
	var rest []byte
	if a.filled != nil {
		rest = a.filled.data
	}
	if err := a.disk.last(rest); err != nil {
		return err
	}
	a.synced = true
	return nil
}

// end gives the buffers back. It can be repeated, and follows sync or comes before the file is closed.
func (a *ahead) end() {
	_ = a.join() // its error was returned, or the file is discarded
	if a.filled != nil {
		a.filled.release()
		a.filled = nil
	}
}

// pacer writes to a file: past the page cache if the file was opened so, and otherwise so that the
// disk begins early.
//
// The page cache does not help a file that is not read soon, and its pages cost more than the copy:
// on a virtual machine whose host takes free memory back, a new page costs several times as much.
type pacer struct {
	f      *os.File
	bulk   bool
	cached bool // through the page cache

	written int64 // bytes so far
	started int64 // up to where the disk has begun
	waited  int64 // up to where it is known to be done
}

// Write takes whole buffers.
func (p *pacer) Write(b []byte) (int, error) {
	n, err := p.f.Write(b)
	p.written += int64(n)
	if err != nil && !p.cached && alignmentError(err) {
		// The file system accepted the flag and does not support it.
		if err := p.useCache(); err != nil {
			return n, err
		}
		more, err := p.Write(b[n:])
		return n + more, err
	}
	if err != nil || !p.cached {
		return n, err
	}
	return n, p.pace()
}

// cut makes the file so long that it ends with its first buffers.
func (p *pacer) cut(size int64) error {
	if err := p.f.Truncate(size); err != nil {
		return err
	}
	if _, err := p.f.Seek(size, io.SeekStart); err != nil {
		return err
	}
	p.written, p.started, p.waited = size, min(p.started, size), min(p.waited, size)
	return nil
}

// last writes the end of the file, of any length, and syncs the file.
func (p *pacer) last(b []byte) error {
	if whole := len(b) &^ (blockSize - 1); whole > 0 && !p.cached {
		if _, err := p.Write(b[:whole]); err != nil {
			return err
		}
		b = b[whole:]
	}
	if len(b) > 0 {
		if err := p.useCache(); err != nil {
			return err
		}
		if _, err := p.Write(b); err != nil {
			return err
		}
	}
	return p.f.Sync()
}

func (p *pacer) useCache() error {
	if p.cached {
		return nil
	}
	p.cached = true
	p.started, p.waited = p.written, p.written
	return leaveDirect(p.f)
}

// pace makes the disk begin.
func (p *pacer) pace() error {
	window := int64(partWindow)
	if p.bulk {
		window = bulkWindow
	}
	if p.written-p.started < window {
		return nil
	}
	startWriteback(p.f, p.started, p.written-p.started)
	p.started = p.written
	if done := p.started - bulkAhead; p.bulk && done > p.waited {
		if err := waitWriteback(p.f, p.waited, done-p.waited); err != nil {
			return err
		}
		p.waited = done
	}
	return nil
}
