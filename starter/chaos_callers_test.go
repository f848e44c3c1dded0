package starter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	callingPutters = 8
	callingCallers = 8
	callingOthers  = 4 // processes
	callingList    = 20
	callingPause   = 300 // executions between two faults, at most
)

// fate is what must have become of an item.
type fate int

const (
	done    fate = iota // accepted: it has one outcome
	unknown             // its caller was killed, or got no answer: at most one
	refused             // and not put again: none
)

// callers put and call items until the faults are over, and note what must have become of them.
type callers struct {
	c     *chaos
	mu    sync.Mutex
	next  int
	over  bool
	fates map[string]fate
	kinds map[string]int // of errors
}

// take is the next list of so many items; empty when the faults are over.
func (a *callers) take(n int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []string
	for !a.over && len(list) < n {
		list = append(list, itemOf(a.next))
		a.next++
	}
	return list
}

// end has the callers take no more items.
func (a *callers) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
}

func itemOf(n int) string { return fmt.Sprintf("%0*d", lineOf-1, n) }

func (a *callers) note(f fate, list []string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, item := range list {
		a.fates[item] = f
	}
	if err != nil {
		kind := fmt.Sprintf("%T", err)
		if e, ok := errors.AsType[*jobs.FeedError](err); ok {
			kind = string(e.Code)
		}
		a.kinds[kind]++
	}
}

// put puts lists. What is refused is not put again.
func (a *callers) put(ctx context.Context, feed *jobs.Feed[string, string]) {
	for list := a.take(callingList); len(list) > 0; list = a.take(callingList) {
		err := feed.Put(ctx, list...)
		switch {
		case err == nil:
			a.note(done, list, nil)
			continue
		case jobs.IsCode(err, jobs.CodeUncertain, jobs.CodeTimeout):
			a.note(unknown, list, err)
		default:
			a.note(refused, list, err)
		}
		time.Sleep(200 * time.Millisecond) // others fill it up otherwise, and all are refused
	}
}

// call calls items one by one. Each call brings the item's own result, or an error of the types that are documented.
func (a *callers) call(ctx context.Context, feed *jobs.Feed[string, string]) {
	for list := a.take(1); len(list) > 0; list = a.take(1) {
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		result, err := feed.Call(limited, list[0])
		cancel()
		late, _ := errors.AsType[*jobs.FeedError](err)
		switch {
		case err == nil:
			assert.Equal(a.c.t, list[0], result)
			a.note(done, list, nil)
		case jobs.IsCode(err, jobs.CodeFull):
			a.note(refused, list, err)
		case jobs.IsCode(err, jobs.CodeStored), late != nil && late.Code == jobs.CodeTimeout && late.Accepted:
			a.note(done, list, err)
		default:
			a.requireTyped(err)
			a.note(unknown, list, err)
			time.Sleep(50 * time.Millisecond) // it is stopped, or nobody serves it
		}
	}
}

func (a *callers) requireTyped(err error) {
	typed := jobs.IsCode(err, jobs.CodeTimeout, jobs.CodeUncertain, jobs.CodeStopped, jobs.CodeUnserved)
	assert.True(a.c.t, typed, "%T: %v", err, err)
}

// process has commands put and call lists, and kills each of them at a random moment.
func (a *callers) process(name string, random *rand.Rand) {
	path, err := binary()
	if !assert.NoError(a.c.t, err) {
		return
	}
	for list := a.take(callingList); len(list) > 0; list = a.take(callingList) {
		file := a.c.path(name)
		if !assert.NoError(a.c.t, os.WriteFile(file, []byte(strings.Join(list, "\n")+"\n"), 0o600)) {
			return
		}
		command := []string{"feed", "put", "nightly", "-f", file, "--wait", "1m"}
		if random.IntN(2) == 0 {
			command = []string{"feed", "call", "nightly", "-f", file}
		}
		p, err := a.c.launch(exec.Command(path, command...))
		if !assert.NoError(a.c.t, err) {
			return
		}
		select { // the kill is the fault
		case <-p.ended:
		case <-time.After(time.Duration(random.IntN(3000)) * time.Millisecond):
			p.signal(syscall.SIGKILL)
			<-p.ended
		}
		if p.cmd.ProcessState.ExitCode() == starter.ExitOK {
			a.note(done, list, nil)
		} else {
			a.note(unknown, list, nil)
		}
		assert.NoError(a.c.t, p.discard())
	}
}

// TestChaos_CallersShort is a short round of TestChaos_Callers.
func TestChaos_CallersShort(t *testing.T) {
	t.Parallel()
	withstandCalling(t, 5)
}

// TestChaos_Callers (G1, F1, F3, F11): twenty callers of a feed, in this process and in others, while the server,
// workers and callers are killed and the job is stopped and resumed, and while an item is in hand from the beginning to
// the end. What was accepted has one outcome, what was refused none, and a call brings its result or an error that says
// what is known.
func TestChaos_Callers(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstandCalling(t, 25) })
}

// withstandCalling has so many faults happen to a feed with callers.
func withstandCalling(t *testing.T, number int) {
	t.Helper()
	c := newChaos(t, 1)
	long := itemOf(0)
	c.handler = []string{"--exec", c.script("slow", `f=$(mktemp -p $BOX) && cat > $f
if grep -q '^`+long+`' $f; then while [ ! -e $BOX/released ]; do sleep 0.1; done; else sleep 0.1; fi
exec < $f; rm $f; tee -a $BOX/witness`)}
	c.batch = 100
	c.flags = []string{"--attempts", "1000", "--grace", "1s"}
	c.beginWorkers()
	c.start("out.txt", "--feed", "--format", "text", "--capacity", "150")
	feed := c.feed()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	a := &callers{c: c, next: 1, fates: map[string]fate{long: done}, kinds: map[string]int{}}
	var all sync.WaitGroup
	defer func() { // none may outlive a round that has failed
		a.end()
		cancel()
		all.Wait()
	}()
	require.NoError(t, feed.PutWait(ctx, patience, long))
	for range callingPutters {
		all.Go(func() { a.put(ctx, feed) })
	}
	for range callingCallers {
		all.Go(func() { a.call(ctx, feed) })
	}
	for i := range callingOthers {
		random := rand.New(rand.NewPCG(c.random.Uint64(), 0))
		all.Go(func() { a.process(fmt.Sprint("list-", i), random) })
	}
	for _, f := range c.choose(faults, number) {
		c.happens(c.executions()+c.random.IntN(callingPause), f)
	}
	a.end()
	all.Wait()
	c.write("released", "")
	c.spawn("feed", "close", "nightly").exits(starter.ExitOK)
	c.spawn("watch", "nightly").exits(starter.ExitOK)
	a.requireFates()
	c.leave()
}

// requireFates requires that the output and the witness are what the callers know.
func (a *callers) requireFates() {
	t := a.c.t
	outcomes, runs := counted(a.c.read("out.txt")), counted(a.c.read("witness"))
	kinds := map[fate]int{}
	for item, f := range a.fates {
		kinds[f]++
		n := outcomes[item]
		delete(outcomes, item)
		switch f {
		case done:
			require.Equal(t, 1, n, "%s was accepted", item)
		case unknown:
			require.LessOrEqual(t, n, 1, item)
		case refused:
			require.Zero(t, n, "%s was refused", item)
			require.Zero(t, runs[item], "%s was refused", item)
		}
	}
	require.Empty(t, outcomes, "nobody has put these")
	require.Len(t, a.fates, a.next)
	r := a.c.report("report.json")
	require.Equal(t, job.Completed, r.State)
	require.Zero(t, r.Failed)
	require.GreaterOrEqual(t, int(r.OK), kinds[done])
	require.Equal(t, r.Planned, r.OK)
	t.Logf("%d accepted, %d refused, %d not known; errors: %v; %d legs", kinds[done], kinds[refused], kinds[unknown], a.kinds, r.Legs)
}

// counted is how often each line is there.
func counted(text string) map[string]int {
	lines := map[string]int{}
	for line := range strings.Lines(text) {
		lines[strings.TrimSuffix(line, "\n")]++
	}
	return lines
}
