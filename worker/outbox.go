package worker

import (
	"io"
	"sync"
)

// maxOutbox is how many frames may wait for a program that does not read: more than it can have
// timers, whose acquisition is answered by a frame each.
const maxOutbox = 20_000

// outbox writes frames one after the other. Whoever finds it at rest writes, for all who come
// meanwhile: so a call goes out without a change of goroutines. The reader of the program's frames,
// which must never wait for the program to read, writes what the pipe takes at once, and hands the
// rest over.
type outbox struct {
	w io.Writer
	// atOnce writes what can be written without waiting, and returns how much that is.
	atOnce func(frame []byte) int

	mu      sync.Mutex
	waiting [][]byte
	busy    bool
	closed  bool
	writing sync.WaitGroup
}

func writeNothing([]byte) int { return 0 }

// write writes the frame, and returns once it is written or cannot be: then the frame is the
// caller's again. It returns false, at once, where another goroutine is writing and takes it over.
// Errors of the pipe are not told: its program has ended.
func (o *outbox) write(frame []byte) bool {
	o.mu.Lock()
	switch {
	case o.closed:
		o.mu.Unlock()
		return true
	case o.busy:
		o.waiting = append(o.waiting, frame)
		o.mu.Unlock()
		return false
	}
	o.busy = true
	o.writing.Add(1)
	o.mu.Unlock()
	o.put(frame)
	o.flush()
	return true
}

// post has the frame written and never waits. It reports false where too many wait: the frame is
// then not sent.
func (o *outbox) post(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return true
	case len(o.waiting) >= maxOutbox:
		return false
	case o.busy:
		o.waiting = append(o.waiting, frame)
		return true
	}
	if frame = frame[o.atOnce(frame):]; len(frame) > 0 {
		o.busy = true
		o.waiting = append(o.waiting, frame)
		o.writing.Add(1)
		go o.flush()
	}
	return true
}

func (o *outbox) flush() {
	defer o.writing.Done()
	for {
		o.mu.Lock()
		frames := o.waiting
		o.waiting = nil
		if len(frames) == 0 {
			o.busy = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		for _, frame := range frames {
			o.put(frame)
		}
	}
}

func (o *outbox) put(frame []byte) {
	if _, err := o.w.Write(frame); err != nil {
		o.fail()
	}
}

// fail drops what waits.
func (o *outbox) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting, o.closed = nil, true
}

// close waits for the end of what is being written. The program has ended: nothing blocks.
func (o *outbox) close() {
	o.fail()
	o.writing.Wait()
}
