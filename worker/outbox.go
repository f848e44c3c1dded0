package worker

import (
	"io"
	"sync"
)

// maxOutbox is how many frames may wait for a program that does not read: more than it can have
// timers, whose acquisition is answered by a frame each.
const maxOutbox = 20_000

// outbox writes frames one after the other. Whoever finds it at rest writes, for all who come
// meanwhile: so a call goes out without a change of goroutines, and the reader of the program's
// frames, which must never wait for the program to read, hands its own over.
type outbox struct {
	w io.Writer

	mu      sync.Mutex
	waiting [][]byte
	busy    bool
	closed  bool
	writing sync.WaitGroup
}

// send writes the frame. With wait it returns once the frame is written or cannot be, or when
// another goroutine has taken it over; without, at once. It reports false where too many wait: the
// frame is then not sent. Errors of the pipe are not told: its program has ended.
func (o *outbox) send(frame []byte, wait bool) bool {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return true
	}
	if len(o.waiting) >= maxOutbox {
		o.mu.Unlock()
		return false
	}
	o.waiting = append(o.waiting, frame)
	if o.busy {
		o.mu.Unlock()
		return true
	}
	o.busy = true
	o.writing.Add(1)
	o.mu.Unlock()
	if wait {
		o.flush()
	} else {
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
			if _, err := o.w.Write(frame); err != nil {
				o.fail()
				break
			}
		}
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
