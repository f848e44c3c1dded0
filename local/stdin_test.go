package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stretchr/testify/require"
)

// A process is killed after it has copied 32 MiB of its standard input; the next one gets another.
func TestRun_KilledHalfWayThroughStdin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec, options := b.spec(), b.options()
	spec.Files.Input, spec.Format, spec.BatchItems = []string{"-"}, "text", 10_000
	options.Note = func(string) {}
	r, w := io.Pipe()
	options.Worker.Stdin = r
	abort := make(chan struct{})
	options.Abort = abort
	var group sync.WaitGroup
	group.Go(func() {
		line := strings.Repeat("x", 1<<10-1) + "\n"
		for range 33 << 10 { // and it never ends
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	})
	group.Go(func() {
		defer close(abort)
		require.Eventually(t, func() bool {
			chunks, err := filepath.Glob(filepath.Join(options.State, "*", "*", "*", "*", "00000001"))
			return err == nil && len(chunks) > 0
		}, 10*time.Minute, 10*time.Millisecond)
	})
	_, err := local.Run(t.Context(), spec, upper, options)
	require.Error(t, err)
	require.NoError(t, r.Close())
	group.Wait()

	var want bytes.Buffer
	var input bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&input, "new %d\n", i)
		fmt.Fprintf(&want, "\"NEW %d\"\n", i)
	}
	options.Worker.Stdin, options.Abort = &input, nil
	report, err := local.Run(t.Context(), spec, upper, options)
	require.NoError(t, err)
	require.EqualValues(t, 1000, report.OK)
	b.requireOutput(want.String())
}

// streaming is a job that runs between two pipes.
type streaming struct {
	t       *testing.T
	to      *io.PipeWriter
	results *bufio.Reader
	close   func()
	ended   chan error
	report  job.Report
}

// stream runs a job over lines of text that are written to it.
func (b *box) stream(change func(*job.Spec)) *streaming {
	b.t.Helper()
	spec, options := b.spec(), b.options()
	spec.Files.Input, spec.Format, spec.Output, spec.BatchItems, spec.Files.Flush = []string{job.StandardInput}, "text", "", 0, 10*time.Millisecond
	if change != nil {
		change(&spec)
	}
	if b.ctx == nil {
		b.ctx = b.t.Context()
	}
	in, to := io.Pipe()
	out, results := io.Pipe()
	options.Worker.Stdin, options.Results, options.Worker.Slots = in, results, 4
	s := &streaming{t: b.t, to: to, results: bufio.NewReader(out), close: func() { _ = out.Close() }, ended: make(chan error, 1)}
	go func() {
		var err error
		s.report, err = local.Run(b.ctx, spec, upper, options)
		_, _ = in.Close(), results.Close()
		s.ended <- err
	}()
	return s
}

func (s *streaming) write(text string) {
	s.t.Helper()
	_, err := io.WriteString(s.to, text)
	require.NoError(s.t, err)
}

func (s *streaming) reads(want string) {
	s.t.Helper()
	line, err := s.results.ReadString('\n')
	require.NoError(s.t, err)
	require.Equal(s.t, want, line)
}

// 14.9: each result is printed before the next item comes.
func TestRun_StreamsStdin(t *testing.T) {
	t.Parallel()
	s := setup(t).stream(nil)
	for i := range 20 {
		s.write(fmt.Sprintf("item %d\n", i))
		s.reads(fmt.Sprintf("\"ITEM %d\"\n", i))
	}
	s.write("bad\nlast")
	require.NoError(t, s.to.Close())
	s.reads("\"LAST\"\n")
	require.NoError(t, <-s.ended)
	require.EqualValues(t, 21, s.report.OK)
	require.EqualValues(t, 1, s.report.Failed)
}

// However items come, and whatever fails, results are those of all items, each once and in order.
func TestRun_StreamsAnyFlow(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := setup(t).stream(func(spec *job.Spec) {
		if random.IntN(2) == 0 {
			spec.BatchItems = 5 + random.Int64N(20)
		}
	})
	var all, want strings.Builder
	for i := range 1000 {
		if random.IntN(10) == 0 {
			all.WriteString("bad\n")
			continue
		}
		fmt.Fprintf(&all, "item %d\n", i)
		fmt.Fprintf(&want, "\"ITEM %d\"\n", i)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for rest := all.String(); rest != ""; {
			n := min(len(rest), 1+random.IntN(1<<random.IntN(14)))
			if _, err := io.WriteString(s.to, rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		_ = s.to.Close()
	})
	got, err := io.ReadAll(s.results)
	require.NoError(t, err)
	require.NoError(t, <-s.ended)
	group.Wait()
	require.Equal(t, want.String(), string(got))
}

// Nobody reads the results any more: the job is stopped, although its input has no end.
func TestRun_StreamsToNobody(t *testing.T) {
	t.Parallel()
	s := setup(t).stream(nil)
	s.write("a\n")
	s.reads("\"A\"\n")
	s.close()
	s.write("b\n")
	err := <-s.ended
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.ErrorContains(t, err, "printing the results")
	require.Equal(t, job.Stopped, s.report.State)
}

// A stop ends a job that waits for its input.
func TestRun_StopsWhileStdinWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancelCause(t.Context())
	b.ctx = ctx
	s := b.stream(nil)
	s.write("a\n")
	s.reads("\"A\"\n")
	enough := errors.New("enough")
	stop(enough)
	require.ErrorIs(t, <-s.ended, enough)
	require.Equal(t, job.Stopped, s.report.State)
	require.EqualValues(t, 1, s.report.OK)
}
