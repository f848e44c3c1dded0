package modeltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/data/store"
)

// world is a simulated object store, and the simulated processes that use it. One execution moves at a
// time, from one operation of the store to the next; what happens there is the schedule's.
type world struct {
	mu      sync.Mutex // of objects, and of the versions of inputs: joins read beside each other
	objects map[string]object
	writes  int
	locked  map[string]bool
}

type object struct {
	data []byte
	etag string
}

// The ends of an operation.
const (
	works     = iota
	fails     // before it has done anything
	answerOff // it is done, and reported as failed
	dies      // the process has died before it
)

var (
	errSimulated = errors.New("a simulated fault")
	errDied      = errors.New("the simulated process has died")
)

// execution is one attempt at an activity.
type execution struct {
	process *process
	moved   chan struct{} // it waits for its turn, or has ended
	turn    chan int      // how its next operation ends
	waits   string        // for this lock; empty: for no lock
	ended   bool
	err     error
	broken  breakage // of its reads
	cancel  func()
}

// breakage is which objects an execution cannot read: 0 none, otherwise those of a kind, at all or beyond their middle.
// It does not depend on the order in which they are opened, because some are opened beside each other.
type breakage int

// breakages is how many there are.
const breakages = breakage(1 + 2*len(kinds))

// kinds are what the keys of objects have in them that are read in pieces. The output comes last, because the store
// lies below its name.
var kinds = [...]string{"/in/", ".out", ".err", "/manifests/", "/spool-", "/stdin-", "/spill-", "/out.txt"}

func (b breakage) String() string {
	if b == 0 {
		return "everything can be read"
	}
	return fmt.Sprintf("%q cannot be read%s", kinds[(b-1)/2], []string{"", " to the end"}[(b-1)%2])
}

// of returns whether an object can be opened, and whether it can be read to its end.
func (b breakage) of(key string) (opens, ends bool) {
	kind := slices.IndexFunc(kinds[:], func(in string) bool { return strings.Contains(key, in) })
	if b == 0 || kind != int(b-1)/2 {
		return true, true
	}
	return b%2 == 0, false
}

type executionKey struct{}

// process is a worker's process: what it keeps in memory dies with it.
type process struct {
	dead atomic.Bool // operations of one execution may look beside each other
	acts any
}

// step lets the other executions have their turn.
func (w *world) step(ctx context.Context, lock string) error {
	e, _ := ctx.Value(executionKey{}).(*execution)
	if e == nil || e.ended {
		return nil
	}
	if e.process.dead.Load() {
		return errDied
	}
	e.waits = lock
	e.moved <- struct{}{}
	what := <-e.turn
	e.waits = ""
	switch what {
	case fails:
		return errSimulated
	case dies:
		return errDied
	case answerOff:
		return nil
	}
	return nil
}

// write is a step that changes the store.
func (w *world) write(ctx context.Context, do func()) error {
	e, _ := ctx.Value(executionKey{}).(*execution)
	what := works
	if e != nil && !e.ended {
		if e.process.dead.Load() {
			return errDied
		}
		e.moved <- struct{}{}
		what = <-e.turn
	}
	switch what {
	case fails:
		return errSimulated
	case dies:
		return errDied
	}
	w.mu.Lock()
	do()
	w.mu.Unlock()
	if what == answerOff {
		return errSimulated
	}
	return nil
}

func (w *world) put(key string, data []byte) {
	w.writes++
	w.objects[key] = object{bytes.Clone(data), fmt.Sprint(w.writes)}
}

func (w *world) get(key string) (object, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok := w.objects[key]
	return o, ok
}

const bucket = "mem://model/"

// The world is a ledger.Access.

func (w *world) Open(_ context.Context, location string) (store.Dir, error) {
	return &simDir{w, strings.TrimSuffix(strings.TrimPrefix(location, strings.TrimSuffix(bucket, "/")), "/") + "/"}, nil
}

func (w *world) Expand(_ context.Context, args []string) iter.Seq2[store.Input, error] {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []store.Input
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		if strings.HasPrefix(key, "/in/") {
			o := w.objects[key]
			found = append(found, store.Input{URL: bucket + key[1:], Info: store.Info{Key: key, Size: int64(len(o.data)), ETag: o.etag}})
		}
	}
	return func(yield func(store.Input, error) bool) {
		for _, input := range found {
			if !yield(input, nil) {
				return
			}
		}
	}
}

func (w *world) StatInput(ctx context.Context, url string) (store.Info, error) {
	return (&simDir{w, "/"}).Stat(context.Background(), strings.TrimPrefix(url, bucket))
}

func (w *world) OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	return (&simDir{w, "/"}).Open(ctx, strings.TrimPrefix(url, bucket), offset, length)
}

// simDir is a directory of the simulated store.
type simDir struct {
	w      *world
	prefix string
}

func missing(key string) error { return fmt.Errorf("reading %s: %w", key, fs.ErrNotExist) }

func (d *simDir) Location() string      { return bucket + strings.Trim(d.prefix, "/") }
func (d *simDir) Local() (string, bool) { return "", false }

func (d *simDir) Create(ctx context.Context, key string) (store.Writer, error) {
	if err := d.w.step(ctx, ""); err != nil {
		return nil, err
	}
	return &simWriter{d: d, ctx: ctx, key: key}, nil
}

func (d *simDir) Put(ctx context.Context, key string, data []byte) error {
	return d.w.write(ctx, func() { d.w.put(d.prefix+key, data) })
}

func (d *simDir) Get(ctx context.Context, key string) ([]byte, error) {
	if err := d.w.step(ctx, ""); err != nil {
		return nil, err
	}
	o, ok := d.w.get(d.prefix + key)
	if !ok {
		return nil, missing(key)
	}
	return bytes.Clone(o.data), nil
}

func (d *simDir) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	opens, ends := true, true
	if e, _ := ctx.Value(executionKey{}).(*execution); e != nil && !e.ended {
		opens, ends = e.broken.of(d.prefix + key)
	}
	o, ok := d.w.get(d.prefix + key)
	switch {
	case !opens:
		return nil, errSimulated
	case !ok:
		return nil, missing(key)
	}
	data := o.data[min(offset, int64(len(o.data))):]
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	if !ends {
		return io.NopCloser(io.MultiReader(bytes.NewReader(data[:len(data)/2]), unreadable{})), nil
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

type unreadable struct{}

func (unreadable) Read([]byte) (int, error) { return 0, errSimulated }

func (d *simDir) Stat(ctx context.Context, key string) (store.Info, error) {
	if err := d.w.step(ctx, ""); err != nil {
		return store.Info{}, err
	}
	o, ok := d.w.get(d.prefix + key)
	if !ok {
		return store.Info{}, missing(key)
	}
	return store.Info{Key: key, Size: int64(len(o.data)), ETag: o.etag}, nil
}

func (d *simDir) List(_ context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		d.w.mu.Lock()
		keys := slices.Sorted(maps.Keys(d.w.objects))
		d.w.mu.Unlock()
		for _, key := range keys {
			if strings.HasPrefix(key, d.prefix+prefix) && !yield(store.Info{Key: strings.TrimPrefix(key, d.prefix)}, nil) {
				return
			}
		}
	}
}

func (d *simDir) Delete(ctx context.Context, key string) error {
	return d.w.write(ctx, func() { delete(d.w.objects, d.prefix+key) })
}

// lock waits until nobody holds the lock of a key.
func (d *simDir) lock(ctx context.Context, key string) (unlock func(), err error) {
	key = d.prefix + key
	for {
		if err := d.w.step(ctx, key); err != nil {
			return nil, err
		}
		if !d.w.locked[key] {
			d.w.locked[key] = true
			return func() { delete(d.w.locked, key) }, nil
		}
	}
}

func (d *simDir) Guard(ctx context.Context, key, want string, fn func(context.Context) error) error {
	unlock, err := d.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	if o, _ := d.w.get(d.prefix + key); string(o.data) != want {
		return &store.FencedError{Key: key, Want: want, Have: string(o.data)}
	}
	return fn(ctx)
}

func (d *simDir) Claim(ctx context.Context, key, value string, admit func(held string) error) error {
	unlock, err := d.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	if admit != nil {
		o, _ := d.w.get(d.prefix + key)
		if err := admit(string(o.data)); err != nil {
			return err
		}
	}
	return d.Put(ctx, key, []byte(value))
}

func (d *simDir) Sweep(ctx context.Context, prefix string, keep func(key string) bool) (int, error) {
	removed := 0
	for info := range d.List(ctx, prefix) {
		if keep == nil || keep(info.Key) {
			continue
		}
		if err := d.Delete(ctx, info.Key); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

type simWriter struct {
	d    *simDir
	ctx  context.Context
	key  string
	buf  bytes.Buffer
	over bool
}

func (w *simWriter) Write(p []byte) (int, error) { return w.buf.Write(p) }

func (w *simWriter) Commit() error {
	if w.over {
		return fs.ErrClosed
	}
	w.over = true
	return w.d.Put(w.ctx, w.key, w.buf.Bytes())
}

func (w *simWriter) Abort() { w.over = true }

// start begins an attempt on a process; it stands before its first operation.
func (w *world) start(p *process, broken breakage, do func(ctx context.Context) error) *execution {
	e := &execution{process: p, broken: broken, moved: make(chan struct{}), turn: make(chan int)}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), executionKey{}, e), 10*time.Minute)
	e.cancel = cancel
	go func() {
		defer cancel()
		err := do(ctx)
		e.err, e.ended = err, true
		e.moved <- struct{}{}
	}()
	<-e.moved
	return e
}

// move lets an execution continue to its next operation, or to its end.
func (e *execution) move(what int) {
	e.turn <- what
	<-e.moved
}

// free reports whether the execution does not wait for a lock that another one holds.
func (w *world) free(e *execution) bool { return e.waits == "" || !w.locked[e.waits] }
