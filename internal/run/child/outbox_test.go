package child

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// slowPipe is a pipe whose writes wait until they are let through.
type slowPipe struct {
	begun chan struct{} // gets one for each write that has begun
	let   chan error    // lets a write through

	mu      sync.Mutex
	written bytes.Buffer
}

func newSlowPipe() *slowPipe {
	return &slowPipe{begun: make(chan struct{}, 1000), let: make(chan error)}
}

func (s *slowPipe) Write(b []byte) (int, error) {
	s.begun <- struct{}{}
	if err := <-s.let; err != nil {
		return 0, err
	}
	return s.atOnce(b, len(b)), nil
}

// atOnce writes at most room bytes.
func (s *slowPipe) atOnce(b []byte, room int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := s.written.Write(b[:min(len(b), room)])
	return n
}

func (s *slowPipe) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}

// patiently writes what has to wait for the pipe.
func patiently(write func()) { write() }

func TestOutbox_WritesInOrder(t *testing.T) {
	t.Parallel()
	pipe := newSlowPipe()
	o := &Outbox{W: pipe, AtOnce: writeNothing}
	first := make(chan bool, 1)
	go func() { first <- o.Write([]byte("1 "), patiently) }()
	<-pipe.begun
	require.False(t, o.Write([]byte("2 "), patiently), "taken over")
	require.True(t, o.Post([]byte("3 ")))
	require.False(t, o.Write([]byte("4 "), patiently))
	for range 4 {
		pipe.let <- nil
	}
	require.True(t, <-first)
	o.Close()
	require.Equal(t, "1 2 3 4 ", pipe.text())
}

// What the pipe takes at once is written at once; only the rest waits for the pipe.
func TestOutbox_Post(t *testing.T) {
	t.Parallel()
	pipe := newSlowPipe()
	room := 10
	o := &Outbox{W: pipe, AtOnce: func(b []byte) int {
		n := pipe.atOnce(b, room)
		room -= n
		return n
	}}
	require.True(t, o.Post([]byte("1234567 ")))
	require.Equal(t, "1234567 ", pipe.text())
	require.Empty(t, pipe.begun)
	require.True(t, o.Post([]byte("abcde ")))
	<-pipe.begun
	require.Equal(t, "1234567 ab", pipe.text())
	require.True(t, o.Post([]byte("f ")), "behind the rest")
	pipe.let <- nil
	pipe.let <- nil
	o.writing.Wait()
	require.Equal(t, "1234567 abcde f ", pipe.text())
}

func TestOutbox_TooMany(t *testing.T) {
	t.Parallel()
	pipe := newSlowPipe()
	o := &Outbox{W: pipe, AtOnce: writeNothing}
	require.True(t, o.Post([]byte("1")))
	<-pipe.begun
	for range MaxOutbox {
		require.True(t, o.Post([]byte("2")))
	}
	require.False(t, o.Post([]byte("3")))
	pipe.let <- errors.New("broken pipe")
	o.Close()
	require.Empty(t, pipe.text())
	require.True(t, o.Post([]byte("4")), "nobody could receive the error")
	require.True(t, o.Write([]byte("5"), patiently))
	require.Empty(t, pipe.text())
}

// Many goroutines: every frame arrives whole, and those of each in order.
func TestOutbox_Concurrent(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer // the outbox sees to it that one goroutine writes
	o := &Outbox{W: &pipe, AtOnce: func(b []byte) int { n, _ := pipe.Write(b[:min(len(b), 3)]); return n }}
	const senders, each = 8, 200
	var sending sync.WaitGroup
	for s := range senders {
		sending.Go(func() {
			for i := range each {
				if frame := fmt.Appendf(nil, "%d:%d;\n", s, i); s%2 == 0 {
					o.Write(frame, patiently)
				} else {
					o.Post(frame)
				}
			}
		})
	}
	sending.Wait()
	o.writing.Wait()
	next := make([]int, senders)
	for line := range strings.Lines(pipe.String()) {
		var s, i int
		_, err := fmt.Sscanf(line, "%d:%d;", &s, &i)
		require.NoError(t, err, line)
		require.Equal(t, next[s], i)
		next[s]++
	}
	for s := range next {
		require.Equal(t, each, next[s])
	}
}

// T17: what the pipe takes at once does not wait; the rest of a frame, and frames of others behind it,
// are written such that the caller can end the wait.
func TestOutbox_WaitsInSlowOnly(t *testing.T) {
	t.Parallel()
	pipe := newSlowPipe()
	room := 10
	o := &Outbox{W: pipe, AtOnce: func(b []byte) int {
		n := pipe.atOnce(b, room)
		room -= n
		return n
	}}
	slow := 0
	wait := func(write func()) {
		slow++
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			write()
		}()
		<-pipe.begun
		require.False(t, o.Write([]byte("behind"), patiently))
		pipe.let <- nil
		<-pipe.begun
		pipe.let <- nil
		<-wrote
	}
	require.True(t, o.Write([]byte("1234567 "), wait))
	require.Zero(t, slow)
	require.True(t, o.Write([]byte("abcde "), wait))
	require.Equal(t, 1, slow)
	require.Equal(t, "1234567 abcde behind", pipe.text())
	room = 100
	require.True(t, o.Write([]byte("!"), wait), "it is at rest again")
	require.Equal(t, 1, slow)
	o.Close()
}
