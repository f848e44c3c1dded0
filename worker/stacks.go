package worker

import (
	"bytes"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/child"
)

// stacks asks the program for its stacks and returns the end of its standard error.
func (p *program) stacks() string {
	p.mu.Lock()
	signal := p.stackSignal
	p.mu.Unlock()
	if signal == 0 {
		return p.stderr.Text()
	}
	before := p.stderr.Capture()
	p.child.Signal(signal)
	limit := time.After(stackLimit)
	quiet := time.NewTicker(stackQuiet)
	defer quiet.Stop()
	for last := before; ; {
		select {
		case <-p.exited:
			<-p.errors
		case <-limit:
		case <-quiet.C:
			if now := p.stderr.Written(); now == before || now != last {
				last = now
				continue
			}
		}
		return p.stderr.Captured()
	}
}

// stackSignals are the signals that a program may choose for requests for its stacks.
var stackSignals = map[string]syscall.Signal{
	"USR1": child.SigUSR1, "USR2": child.SigUSR2, "QUIT": syscall.SIGQUIT, "ABRT": syscall.SIGABRT,
}

// writeStacks writes, on request, where the handler's calls are. It runs as long as the process.
func writeStacks(asked <-chan os.Signal) {
	for range asked {
		buf := make([]byte, 8<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
			if bytes.Contains(stack, []byte("worker.(*slotServer).makeCalls(")) {
				_, _ = os.Stderr.Write(append(stack, '\n')) // nobody could receive the error
			}
		}
	}
}
