package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

// stintServe runs a job of one batch over a serve program in one slot, in calls of a fixed size.
func stintServe(args []string) error {
	items, callItems, err := twoInts(args[3], args[4])
	if err != nil {
		return err
	}
	return embedded(args, worker.Serve(args[5:]...), worker.Options{Slots: 1, CallItems: callItems}, job.Spec{BatchItems: int64(items)}, false)
}

func twoInts(a, b string) (int, int, error) {
	x, err := strconv.Atoi(a)
	if err != nil {
		return 0, 0, err
	}
	y, err := strconv.Atoi(b)
	return x, y, err
}

// lockstep is a serve program that is fed by hand: no call before the last one's answer.
type lockstep struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int64
	buf []byte
}

// startLockstep starts a program and waits until it is ready.
func startLockstep(argv []string) (*lockstep, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l := &lockstep{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	hello, err := frames.Encode(wire.HelloFrame{Type: frames.TypeHello, Version: frames.Version, Concurrency: 1})
	if err != nil {
		return nil, err
	}
	if _, err := in.Write(hello); err != nil {
		return nil, err
	}
	_, err = l.out.ReadBytes('\n') // ready
	return l, err
}

// call has the items answered, which must be JSON.
func (l *lockstep) call(items [][]byte, out io.Writer) error {
	l.id++
	l.buf = fmt.Appendf(l.buf[:0], `{"type":"call","id":%d,"items":[`, l.id)
	l.buf = append(append(l.buf, bytes.Join(items, []byte(","))...), "]}\n"...)
	if _, err := l.in.Write(l.buf); err != nil {
		return err
	}
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	var answer struct {
		Type    string
		ID      int64
		Results []struct{ Value json.RawMessage }
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return err
	}
	if answer.Type != "results" || answer.ID != l.id || len(answer.Results) != len(items) {
		return fmt.Errorf("call %d was answered with %.100q", l.id, line)
	}
	for _, r := range answer.Results {
		if _, err := out.Write(append(r.Value, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func (l *lockstep) end() error {
	if err := l.in.Close(); err != nil {
		return err
	}
	return l.cmd.Wait()
}

// bareServe returns the loop that one would write by hand around the program.
func bareServe(args []string) error {
	callItems, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	in, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(args[1])
	if err != nil {
		return err
	}
	l, err := startLockstep(args[5:])
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 1<<20)
	lines := bufio.NewReaderSize(in, 1<<20)
	items := make([][]byte, 0, callItems)
	for more := true; more; {
		items = items[:0]
		for len(items) < callItems {
			line, err := lines.ReadBytes('\n')
			if more = err == nil; !more {
				break
			}
			items = append(items, bytes.TrimSuffix(line, []byte("\n")))
		}
		if len(items) == 0 {
			break
		}
		if err := l.call(items, w); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return l.end()
}

// restart has an item after the other kill the slot's program, and finds out how long it takes until
// the call is in its successor's hands, over what the program takes to start.
func restart(args []string) error {
	argv := []string{args[3], "dies", args[2] + "/deaths"}
	if err := os.MkdirAll(argv[2], 0o755); err != nil {
		return err
	}
	var own []int64
	for range 20 {
		began := time.Now()
		l, err := startLockstep(argv)
		if err != nil {
			return err
		}
		own = append(own, int64(time.Since(began)))
		if err := l.end(); err != nil {
			return err
		}
	}
	if err := embedded(args, worker.Serve(argv...), worker.Options{Slots: 1, CallItems: 1}, job.Spec{}, false); err != nil {
		return err
	}
	all, err := answers(args[1])
	if err != nil {
		return err
	}
	total, start := middle(all), middle(own)
	return report(args[1], total-start, fmt.Sprintf("%v from the kill to the call in new hands; starting the program alone takes %v of that", brief(total), brief(start)))
}

// answers reads a job's results, which are numbers of nanoseconds.
func answers(path string) ([]int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []int64
	for line := range strings.Lines(string(text)) {
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return all, nil
}

func middle(of []int64) time.Duration {
	slices.Sort(of)
	return time.Duration(of[len(of)/2])
}
