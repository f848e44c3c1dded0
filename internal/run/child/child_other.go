//go:build !linux

package child

import (
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
)

// startPinned starts the command. CPUs cannot be chosen here: checkCPUs has refused them.
func startPinned(cmd *exec.Cmd, _ []int) error { return cmd.Start() }

func UsableCPUs() (func(cpu int) bool, error) {
	return nil, errors.New("the CPUs of processes cannot be chosen on this system")
}

func WriteAtOnce(stream) func([]byte) int { return writeNothing }

// CountedPipe reads a pipe, and knows how much of it its reader was given. How much waits in the pipe
// is not known on this system.
type CountedPipe struct {
	stream
	taken   atomic.Int64
	waiting atomic.Bool // the reader, for more
}

func NewCountedPipe(s stream) *CountedPipe { return &CountedPipe{stream: s} }

// Read implements io.Reader.
func (c *CountedPipe) Read(b []byte) (int, error) {
	c.waiting.Store(true)
	n, err := c.stream.Read(b)
	c.taken.Add(int64(n))
	c.waiting.Store(false)
	return n, err
}

func (c *CountedPipe) Written() int64 { return c.taken.Load() }
func (c *CountedPipe) Drained() bool  { return c.waiting.Load() }

// OomKills is not known here.
func OomKills() int64 { return 0 }

// orphanage does nothing on this system: processes that leave their group get away.
var orphanage orphans

// daemons are such processes.
var daemons = orphanage

type orphans struct{}

func (orphans) newMark() string   { return "" }
func (orphans) look(int)          {}
func (orphans) enter()            {}
func (orphans) leave()            {}
func (orphans) deserted(int) bool { return false }
func (orphans) part(int)          {}
func (orphans) end(int)           {}
func (orphans) reaped(int)        {}

func (orphans) start(cmd *exec.Cmd, cpus []int, _ string) error { return startPinned(cmd, cpus) }

// newBulkPipe makes a pipe to or from a child.
func newBulkPipe(toChild bool) (ours stream, childs *os.File, err error) { return osPipe(toChild) }
