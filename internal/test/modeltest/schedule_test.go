package modeltest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/stages/stagestest"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
)

// choices are a schedule: each number decides one thing, and 0 is what happens if nothing goes wrong. After the
// recorded ones come random ones, or zeros.
type choices struct {
	made   []int
	at     int
	random *rand.Rand // nil: zeros
}

// pick returns a number below n: 0 in most cases.
func (c *choices) pick(n, percent int) int {
	v := 0
	switch {
	case c.at < len(c.made):
		v = c.made[c.at] % n
	case c.random != nil && n > 1 && c.random.IntN(100) < percent:
		v = 1 + c.random.IntN(n-1)
	}
	if c.at < len(c.made) {
		c.made[c.at] = v
	} else {
		c.made = append(c.made, v)
	}
	c.at++
	return v
}

// maxFaults bounds what goes wrong in one schedule, so that it ends.
const maxFaults = 10

// simulation is one schedule: a job and its redrives, on a simulated server.
type simulation struct {
	*choices
	*world
	processes []*process
	dead      []*process
	gone      []*execution // attempts that were given up and continue
	faults    int
	log       []string

	stdin      bool
	served     int    // processes so far
	typed      string // what the latest process gets on its standard input
	read       string // what the accepted process got
	generation int    // of outcomes: redrives let more items succeed
	born       int64
	contents   map[string]string // of inputs, by URL and ETag

	spec    job.Spec
	ref     wire.Ref
	redrive *job.Redrive
	planned int64   // items, of the latest run
	staged  *staged // nil: the job has one handler

	// Of jobs with their workflows: see [jobSimulation].
	pages    int  // most batches of a page
	poison   bool // some items kill their workers, until they are run again
	finished wire.FinishResult
	afresh   bool               // the run continues no other
	servers  map[string]*server // by runs
	// lostItems is how many items of a feed a run has not found any more.
	lostItems int64
}

func (s *simulation) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// bad reports whether one of n-1 things goes wrong, and which.
func (s *simulation) bad(n, percent int) int {
	if s.faults >= maxFaults || s.staged != nil && s.staged.calm {
		return 0
	}
	if s.staged != nil { // which has many more operations
		percent = (percent + 3) / 4
	}
	v := s.pick(n, percent)
	if v > 0 {
		s.faults++
	}
	return v
}

// handler answers an item with itself. Every third item fails, until it is run again.
type handler struct{ s *simulation }

func (h handler) Traits() calls.Traits { return calls.Traits{Form: calls.Lines} }
func (h handler) CallSize() calls.CallSize {
	if h.s.staged != nil {
		return calls.CallSize{Items: h.s.staged.size, Bytes: 1 << 20}
	}
	return calls.CallSize{Items: 3, Bytes: 1 << 20}
}
func (h handler) Call(c *calls.Call) error {
	if h.s.staged != nil {
		return h.s.staged.call(c, h.s.generation)
	}
	if of, _ := c.Begin().Value(stageKey{}).(*stageCalls); of != nil {
		if of.made++; of.made == of.slow {
			c.SlowDown(time.Nanosecond) // the items without an answer are the batch's rest
			c.Items = c.Items[:min(1, len(c.Items)-1)]
		}
	}
	defer c.End()
	for _, item := range c.Items {
		if failing(string(item.Data), h.s.generation) {
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: string(item.Data)}}, 1)
		} else {
			c.Answer.Line(item.Data)
		}
	}
	return nil
}

func failing(item string, generation int) bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(item))
	return sum.Sum32()%12 < uint32(4>>generation)
}

func (s *simulation) newProcess() *process {
	o := activities.Options{Access: s.world, Handler: handler{s}, Pending: s.pendingOf}
	if s.stdin {
		s.served++
		s.typed = s.lines(fmt.Sprint("stdin", s.served), 8+s.served)
		o.Stdin = strings.NewReader(s.typed)
	}
	return &process{acts: activities.New(o)}
}

// close ends all that still runs, and what processes have, the dead ones, too.
func (s *simulation) close() {
	s.settle()
	for _, p := range append(s.dead, s.processes...) {
		acts(p).Close()
	}
}

func acts(p *process) *activities.Activities { return p.acts.(*activities.Activities) }

// lines are n different items.
func (s *simulation) lines(name string, n int) string {
	var b strings.Builder
	for i := range n {
		if item := fmt.Sprintf("%s-%d", name, i); s.staged != nil {
			fmt.Fprintf(&b, "{\"i\":%q,\"k\":%q}\n", item, stagestest.Kinds[i%len(stagestest.Kinds)])
		} else {
			fmt.Fprintln(&b, item)
		}
	}
	return b.String()
}

// input writes an input, of new content.
func (s *simulation) input(name string) {
	text := s.lines(fmt.Sprint(name, s.writes), 9)
	data := []byte(text)
	if strings.HasSuffix(name, ".gz") {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(data)
		_ = w.Close()
		data = b.Bytes()
	}
	s.put("/in/"+name, data)
	s.contents[bucket+"in/"+name+" "+s.objects["/in/"+name].etag] = text
}

// kill ends a process: its executions end at once, and another one takes its place.
func (s *simulation) kill(i int) {
	p := s.processes[i]
	p.dead.Store(true)
	s.dead = append(s.dead, p)
	s.note("process %d dies", i)
	s.gone = slices.DeleteFunc(s.gone, func(e *execution) bool { s.endDead(e); return e.ended })
	s.processes[i] = s.newProcess()
}

func (s *simulation) endDead(e *execution) {
	for e.process.dead.Load() && !e.ended {
		e.move(dies)
	}
}

// activity has an activity done as the server would: attempts are lost, given up, and repeated.
func (s *simulation) activity(name string, between func(), do func(ctx context.Context, a *activities.Activities) error) error {
	for attempt := 0; ; attempt++ {
		if attempt > 0 && between != nil {
			between()
		}
		i := s.pick(len(s.processes), 30)
		p := s.processes[i]
		broken := breakage(s.bad(int(breakages), 4))
		if broken != 0 {
			s.note("%s: %v", name, broken)
		}
		e := s.start(p, broken, func(ctx context.Context) error { return do(ctx, acts(p)) })
		if !s.follow(name, i, e) {
			continue
		}
		var permanent *temporal.ApplicationError
		switch {
		case e.err != nil && errors.As(e.err, &permanent) && permanent.NonRetryable():
			return e.err
		case e.err != nil:
			s.note("%s fails: %v", name, e.err)
			if attempt > 100 {
				return fmt.Errorf("%s fails for ever: %w", name, e.err)
			}
		case s.bad(2, 5) == 1:
			s.note("the result of %s is lost", name)
		default:
			return nil
		}
	}
}

// follow runs an attempt, and those that were given up beside it. It reports whether the attempt has ended; if not it
// was given up, or its process has died.
func (s *simulation) follow(name string, on int, e *execution) (ended bool) {
	for !e.ended {
		who := e
		if n := len(s.gone); n > 0 {
			if k := s.pick(n+1, 30); k > 0 {
				who = s.gone[k-1]
			}
		}
		if who == e && !s.free(e) { // somebody who was given up holds the lock
			who = s.gone[slices.IndexFunc(s.gone, s.free)]
		}
		if !s.free(who) {
			who = e
			if !s.free(e) {
				who = s.gone[slices.IndexFunc(s.gone, s.free)]
			}
		}
		what := s.bad(5, 4)
		switch what {
		case 3:
			s.note("%s loses its process", name)
			e.process.dead.Store(true)
			s.endDead(e)
			s.kill(on)
			return false
		case 4:
			s.note("%s is given up", name)
			s.gone = append(s.gone, e)
			if s.stdin {
				s.settle() // attempts take turns at the standard input: the next one would wait for this one
			}
			return false
		}
		if what > 0 {
			s.note("an operation of %s: fault %d", name, what)
		}
		who.move(what)
		s.gone = slices.DeleteFunc(s.gone, func(e *execution) bool { return e.ended })
	}
	return true
}

// settle lets everybody who was given up end.
func (s *simulation) settle() {
	for len(s.gone) > 0 {
		e := s.gone[slices.IndexFunc(s.gone, s.free)]
		e.move(works)
		s.gone = slices.DeleteFunc(s.gone, func(e *execution) bool { return e.ended })
	}
}

// newRun begins a run of the job.
func (s *simulation) newRun() {
	s.born++
	if s.staged != nil {
		s.staged.totals = job.Totals{}
	}
	s.ref = wire.Ref{Job: "job", Run: fmt.Sprintf("run-%d", s.born), Born: s.born, Store: s.spec.Store}
}

// change changes the listing, before it is accepted.
func (s *simulation) change() {
	if s.stdin || s.ref.Sources != "" {
		return
	}
	switch s.pick(3, 50) {
	case 1:
		s.note("an input comes")
		s.relisted()
		s.input(fmt.Sprintf("a%02d.txt.gz", 50-s.born))
	case 2:
		s.note("an input is replaced")
		s.relisted()
		s.input("b.txt.gz")
	}
}

// plan plans pages to the end.
func (s *simulation) plan(resume []string) (batches []wire.Batch, planned int64, err error) {
	in := wire.PlanInput{Ref: s.ref, Spec: s.spec, Resume: resume, Batches: 2}
	for {
		var result wire.PlanResult
		name := fmt.Sprintf("Plan of %s at %d", s.ref.Run, in.From.Item)
		page := in
		change := s.change
		if len(resume) > 0 {
			change = nil // the table is accepted
		}
		err := s.activity(name, change, func(ctx context.Context, a *activities.Activities) error {
			var got wire.PlanResult
			var err error
			if of := s.redrive; of != nil {
				got, err = a.PlanRedrive(ctx, wire.PlanRedriveInput{PlanInput: page, Redrive: *of})
			} else {
				got, err = a.Plan(ctx, page)
			}
			if e := ctx.Value(executionKey{}).(*execution); !slices.Contains(s.gone, e) {
				result = got
			}
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		if result.Sources != "" {
			s.ref.Sources, in.Ref.Sources = result.Sources, result.Sources
			if s.staged != nil {
				s.staged.totals = result.Resumed
			}
			if s.redrive == nil && len(resume) == 0 {
				s.read = s.typed
			}
		}
		found, err := wire.DecodePage(result.Page)
		if err != nil {
			return nil, 0, err
		}
		batches, in.From = append(batches, found...), result.Next
		if result.Done {
			return batches, in.From.Item, nil
		}
	}
}

// do processes batches and commits them, a few at a time.
func (s *simulation) do(batches []wire.Batch, heads []string) ([]string, error) {
	if s.staged != nil {
		return s.flow(batches, heads)
	}
	for len(batches) > 0 {
		n := min(2, len(batches))
		var entries []wire.Entry
		for _, b := range batches[:n] {
			in := wire.ProcessInput{Ref: s.ref, Batch: b, Calls: wire.CallLimits{Attempts: 1, ItemAttempts: 1, Backoff: time.Nanosecond}}
			var entry wire.Entry
			err := s.activity("Process "+b.String(), nil, func(ctx context.Context, a *activities.Activities) error {
				got, err := a.Process(ctx, in)
				if e := ctx.Value(executionKey{}).(*execution); !slices.Contains(s.gone, e) {
					entry = got.Entry
				}
				return err
			})
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry)
		}
		in := wire.CommitInput{Ref: s.ref, Previous: heads}
		err := s.activity("Commit", nil, func(ctx context.Context, a *activities.Activities) error {
			in := in
			in.Entries = slices.Clone(entries)
			got, err := a.Commit(ctx, in)
			if e := ctx.Value(executionKey{}).(*execution); !slices.Contains(s.gone, e) && err == nil {
				heads = []string{got.Manifest}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		batches = batches[n:]
		if len(batches) > 0 && s.bad(2, 5) == 1 {
			return heads, errTerminated
		}
	}
	return heads, nil
}

var errTerminated = errors.New("the workflow was terminated")

// run runs the job, or its redrive, to its end.
func (s *simulation) run() (wire.FinishResult, []string, error) {
	var heads, earlier []string
	for {
		s.newRun()
		if s.redrive != nil {
			s.redrive.Runs = append(s.redrive.Runs, s.ref.Run)
		}
		batches, planned, err := s.plan(heads)
		s.planned = planned
		if err == nil {
			heads, err = s.do(batches, heads)
		}
		var result wire.FinishResult
		if err == nil {
			in := wire.FinishInput{Ref: s.ref, Spec: s.spec, Manifests: heads, Planned: planned, Earlier: slices.Clone(earlier)}
			err = s.activity("Finish of "+s.ref.Run, nil, func(ctx context.Context, a *activities.Activities) (err error) {
				var got wire.FinishResult
				if of := s.redrive; of != nil {
					got, err = a.FinishRedrive(ctx, wire.FinishRedriveInput{FinishInput: in, Redrive: *of})
				} else {
					got, err = a.Finish(ctx, in)
				}
				if e := ctx.Value(executionKey{}).(*execution); !slices.Contains(s.gone, e) {
					result = got
				}
				return err
			})
			if err == nil && s.bad(2, 3) == 1 {
				err = errTerminated // its result gets lost
			}
		}
		earlier = append(earlier, s.ref.Run)
		switch {
		case err == nil:
			return result, heads, nil
		case s.stdin && strings.Contains(err.Error(), "the process that read the standard input"):
			s.note("starting afresh: %v", err)
			s.relisted()
			heads = nil
			s.kill(0)
		case errors.Is(err, errStopped):
			s.note("stopped with %d manifests", len(heads))
			if s.stdin && len(heads) == 0 { // nothing says what has been read
				s.relisted()
				s.kill(0)
			}
		case errors.Is(err, errTerminated) && s.stdin:
			heads = nil
			s.note("terminated; starting afresh")
			s.relisted()
			s.kill(0)
		case errors.Is(err, errTerminated):
			s.note("terminated with %d manifests", len(heads))
		default:
			return result, nil, err
		}
	}
}

// want is the model: what the accepted source table holds, item by item.
func (s *simulation) want(accepted *inputs.Table) (output string, failed []string) {
	ordinal := int64(0)
	for input := range accepted.Inputs() {
		text := s.read
		if input.URL != "-" {
			text = s.contents[input.URL+" "+input.ETag]
		}
		for line := range strings.Lines(text) {
			if item := strings.TrimSuffix(line, "\n"); failing(item, s.generation) || s.poisonous(ordinal) {
				failed = append(failed, item)
			} else {
				output += line
			}
			ordinal++
		}
	}
	return output, failed
}

// check compares output and errors file with the model.
func (s *simulation) check(accepted *inputs.Table, result wire.FinishResult) error {
	if s.staged != nil {
		return s.checkStaged(accepted, result)
	}
	output, failed := s.want(accepted)
	got, _ := s.get("/out.txt")
	if string(got.data) != output {
		return fmt.Errorf("the output is %q, and should be %q", got.data, output)
	}
	var found []string
	errorsFile, there := s.get("/out.txt.errors.jsonl")
	for line := range bytes.Lines(errorsFile.data) {
		var f job.Failure
		if err := json.Unmarshal(line, &f); err != nil {
			return err
		}
		if f.Error.Type != "WorkerDied" {
			found = append(found, f.Error.Message)
			continue
		}
		var item string
		if err := json.Unmarshal(f.Input, &item); err != nil {
			return err
		}
		found = append(found, item)
	}
	switch {
	case !slices.Equal(found, failed) || there != (len(failed) > 0):
		return fmt.Errorf("the errors are of %q, and should be of %q", found, failed)
	case result.Books.Failed != int64(len(failed)) || (result.Output.Errors != "") != there:
		return fmt.Errorf("the report says %+v", result)
	}
	return nil
}

// accepted reads the source table that manifests name, or that of an empty job.
func (s *simulation) accepted(heads []string) (*inputs.Table, error) {
	dir, _ := s.Open(context.Background(), s.spec.Store)
	key := s.ref.Sources
	if len(heads) > 0 {
		head, err := ledger.ReadHead(context.Background(), dir, heads[0])
		if err != nil {
			return nil, err
		}
		key = head.Sources
	}
	return inputs.New(s.world, nil).Table(context.Background(), dir, key)
}

// simulate runs one schedule. It returns what went wrong, and a log of what happened.
func simulate(c *choices) (log []string, err error) {
	s := newSimulation(c, job.Spec{Pool: "pool", Format: "text", BatchItems: 4})
	return s.schedule()
}

// newSimulation is one of a job over some inputs, or over its standard input.
func newSimulation(c *choices, spec job.Spec) *simulation {
	s := &simulation{choices: c, contents: map[string]string{}}
	s.world = &world{objects: map[string]object{}, locked: map[string]bool{}}
	spec.Files = &job.Files{Input: []string{bucket + "in/"}}
	spec.Name, spec.Output = "job", bucket+"out.txt"
	s.stdin = s.pick(4, 25) == 3
	if s.stdin {
		spec.Files.Input = []string{"-"}
	}
	s.spec = spec.WithDefaults()
	return s
}

// schedule runs the job, and its redrives.
func (s *simulation) schedule() (log []string, err error) {
	s.input("b.txt.gz")
	s.input("c.txt")
	s.input("d.txt") // in one bundle
	s.processes = []*process{nil, nil}
	if s.stdin {
		s.processes = []*process{nil}
	}
	for i := range s.processes {
		s.processes[i] = s.newProcess()
	}
	defer func() {
		s.close()
		log = s.log
	}()
	if s.staged == nil && s.pick(4, 50) == 1 {
		s.earlier()
	}
	for ; s.generation < 3; s.generation++ {
		result, heads, err := s.run()
		if err != nil {
			return nil, err
		}
		if s.redrive != nil {
			heads = result.Manifests
		}
		settled := s.pick(2, 50) == 0
		if settled {
			s.settle()
		}
		table, err := s.accepted(heads)
		if err == nil {
			err = s.check(table, result)
		}
		if err != nil {
			return nil, err
		}
		if s.pick(2, 50) == 0 {
			return nil, nil
		}
		s.redrive = &job.Redrive{Manifests: heads, Output: result.Output, Planned: result.Books.Items, Runs: []string{s.ref.Run}}
		s.note("redrive")
	}
	return nil, nil
}

// earlier leaves the same output as an earlier job would, and other errors.
func (s *simulation) earlier() {
	accepted := inputs.Table{SourceTable: wire.SourceTable{Sources: []wire.Source{{URL: bucket + "in/b.txt.gz", ETag: s.objects["/in/b.txt.gz"].etag}, {URL: bucket + "in/c.txt", ETag: s.objects["/in/c.txt"].etag}, {URL: bucket + "in/d.txt", ETag: s.objects["/in/d.txt"].etag}}}}
	output, _ := s.want(&accepted)
	s.put("/out.txt", []byte(output))
	s.put("/out.txt.errors.jsonl", []byte("{\"error\":{\"message\":\"stale\"}}\n"))
}
