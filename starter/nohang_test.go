package starter_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// No command hangs: whatever has become of the server and of the workers, each one ends at Ctrl-C, keeps its time
// limit, or ends by itself, and says who does not answer. The commands are those of the table `waiting`, which has to
// name every command that waits.

const (
	// limitBound and aloneBound are how long a command may take that has a time limit, see attempt.limit, and one that
	// has none and waits for no job; endBound is how long it may take to end at Ctrl-C. They count from when it has
	// connected, and only have to be shorter than for ever.
	limitBound = 45 * time.Second
	aloneBound = 90 * time.Second
	endBound   = 30 * time.Second
	// atOnce is how many commands of a trouble run beside each other.
	atOnce = 16
)

// A way to run a command.
type way int

const (
	interrupted way = iota // Ctrl-C comes once it waits
	limitedTo              // it has a time limit, if it takes one
)

// trouble is a state of the server and the workers.
type trouble struct {
	name  string
	begin func(*site)
	// deaf: the server answers nothing; atOnce: it refuses connections, so that commands end by themselves.
	deaf, atOnce bool
	// who is what must be said of who does not answer.
	who *regexp.Regexp
	// lost: once a command waits, the server seems to freeze, or to be gone.
	lost bool
	// keeps reports whether a command is tried in a way; nil: all are. Similar troubles need not have all commands.
	keeps func(line string, w way) bool
}

var (
	serverIsSilent  = regexp.MustCompile(`[Tt]emporal server (at|answers at) 127\.0\.0\.1:\d+|the Temporal server has not answered within`)
	workersAreQuiet = regexp.MustCompile(`no worker serves pool p\b|workers serve pool p\b|(worker|workers) of pool p\b`)
	tasksFail       = regexp.MustCompile(`workflow task of \S+ fails|of another version of stint or of another program|` + workersAreQuiet.String())
)

var troubles = []trouble{
	{name: "server gone", deaf: true, atOnce: true, who: serverIsSilent, begin: (*site).makeJobs, keeps: untilTheLimit},
	{name: "server frozen", deaf: true, who: serverIsSilent, begin: func(s *site) {
		s.serve()
		s.jobs = nil
		s.makeJobs()
		s.server.signal(syscall.SIGSTOP)
	}},
	{name: "worker frozen", who: workersAreQuiet, begin: func(s *site) {
		s.work()
		s.worker.signal(syscall.SIGSTOP)
	}},
	{name: "worker killed", who: workersAreQuiet, begin: func(s *site) {
		s.work()
		s.worker.kill()
	}, keeps: untilTheLimit},
	{name: "worker drained", who: workersAreQuiet, begin: func(s *site) {
		s.work()
		s.worker.signal(syscall.SIGTERM)
		s.worker.exits(starter.ExitOK)
	}, keeps: func(line string, w way) bool { return w == limitedTo && forTheEnd(line) }},
	{name: "no worker yet", who: workersAreQuiet, begin: func(s *site) {
		s.serve()
		s.makeJobs()
	}, keeps: untilTheLimit},
	{name: "workflow task fails", who: tasksFail, begin: func(s *site) {
		s.work()
		s.worker.kill()
		s.another()
	}, keeps: func(line string, w way) bool { return w == limitedTo || forTheEnd(line) }},
	{name: "server lost meanwhile", who: anyone, lost: true, begin: func(s *site) {
		s.serve()
		s.makeJobs()
	}, keeps: waitsLong},
}

func waitsLong(line string, _ way) bool  { return forTheEnd(line) }
func untilTheLimit(_ string, w way) bool { return w == limitedTo }

// anyone: of a server that falls silent while it is asked about silent workers, either may be said.
var anyone = regexp.MustCompile(serverIsSilent.String() + "|" + workersAreQuiet.String())

// TestNoCommandHangs: a new command that waits has to be in the table (see TestD15_EveryCommandEndsAtTheFirstSignal),
// and so is here. (S19: every command ends at the first signal, and says who does not answer.)
func TestNoCommandHangs(t *testing.T) {
	t.Parallel()
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			s := &site{box: setup(t), trouble: trouble}
			s.write("in.txt", "hold\n")
			s.write("bad.txt", "good\nbad\n")
			for _, lines := range waiting {
				for _, line := range lines {
					for _, way := range []way{interrupted, limitedTo} {
						if trouble.keeps != nil && !trouble.keeps(line, way) {
							continue
						}
						lose := []func(*cable){(*cable).hold, (*cable).sever}[len(s.attempts)%2]
						s.attempts = append(s.attempts, &attempt{lose: lose, site: s, given: line, line: strings.Fields(line), way: way, limited: limited(t, line)})
					}
				}
			}
			slices.SortStableFunc(s.attempts, func(a, b *attempt) int { return strings.Compare(a.given, b.given) })
			trouble.begin(s)
			s.runAll()
		})
	}
}

// site is a server with its worker and jobs, in some trouble.
type site struct {
	*box
	trouble  trouble
	attempts []*attempt

	address  string // of the server
	server   *process
	worker   *process
	temporal sdkclient.Client
	jobs     *jobs.Client // nil: the server answers nothing
	running  []string     // workflow IDs of jobs and legs that run

	startUp time.Duration // how long a command takes that does nothing
}

// serve starts the server.
func (s *site) serve() {
	s.t.Helper()
	s.server = s.cluster()
	_, s.address, _ = strings.Cut(s.env[len(s.env)-1], "=")
	s.temporal = s.dial(s.address)
	s.jobs = jobs.NewClient(s.temporal, nil)
	s.t.Cleanup(func() { // also this command ends, whoever still asks it
		s.server.signal(syscall.SIGCONT)
		s.server.signal(syscall.SIGTERM)
		s.server.exits(starter.ExitOK)
	})
}

// work starts the server and a worker, and makes the jobs of all attempts.
func (s *site) work() {
	s.t.Helper()
	s.serve()
	handler := s.script("holds", `in=$(cat); case "$in" in *bad*) exit 3;; *hold*) while [ ! -e $BOX/gate ]; do sleep 0.1; done;; esac; echo "$in"`)
	s.worker = s.spawn("worker", "--pool", "p", "--allow", s.dir, "--exec", handler, "--slots", "2", "--drain", "100ms")
	s.worker.says("serving pool p")
	s.makeJobs()
}

// another serves as a program that has none of the workflows of jobs: their workflow tasks fail.
func (s *site) another() {
	s.t.Helper()
	for _, queue := range []string{wire.WorkflowQueue, wire.PoolQueue("p")} {
		w := sdkworker.New(s.temporal, queue, sdkworker.Options{})
		w.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil }, workflow.RegisterOptions{Name: "another"})
		require.NoError(s.t, w.Start())
		s.t.Cleanup(w.Stop)
	}
	for _, id := range s.running {
		eventually(s.t, "a failing workflow task of "+id, func() bool {
			require.NoError(s.t, s.temporal.SignalWorkflow(s.t.Context(), id, "", wire.SignalRestarted, nil))
			found, err := s.jobs.Get(id).FailingTask(s.t.Context())
			return err == nil && found != nil
		})
	}
}

// jobKinds are the words of command lines that stand for jobs, and how such a job is made.
var jobKinds = map[string]jobKind{
	"a-job":         {make: (*site).makeJob},
	"one-job":       {make: (*site).makeJob, own: true},
	"a-feed":        {make: (*site).makeFeed},
	"one-feed":      {make: (*site).makeFeed, own: true},
	"a-stopped-job": {make: (*site).makeStopped, own: true, worked: true},
	"a-faulty-job":  {make: (*site).makeFaulty, own: true, worked: true},
	"an-ended-job":  {make: (*site).makeEnded, own: true},
	"an-ended-loop": {make: (*site).makeEndedLoop, own: true},
	"a-schedule":    {make: (*site).makeSchedule, own: true},
	"a-name":        {own: true},
}

type jobKind struct {
	make   func(s *site, name string) // nil: nothing is made, it is a new name
	own    bool                       // each command has a job of its own
	worked bool                       // it needs a worker
}

// makeJobs gives the jobs of all attempts their names, and makes them if the server answers. It drops the attempts
// whose jobs cannot be made.
func (s *site) makeJobs() {
	s.t.Helper()
	made := map[string]bool{}
	s.attempts = slices.DeleteFunc(s.attempts, func(a *attempt) bool {
		return s.jobs != nil && s.worker == nil && slices.ContainsFunc(a.line, func(word string) bool { return jobKinds[word].worked })
	})
	for _, a := range s.attempts {
		for i, word := range a.line {
			kind, is := jobKinds[word]
			if !is {
				continue
			}
			name := word
			if kind.own {
				name = fmt.Sprintf("%s-%d", word, len(made))
			}
			if !made[name] && kind.make != nil && s.jobs != nil {
				kind.make(s, name)
			}
			made[name], a.line[i] = true, name
		}
	}
}

// started starts a job. If there is a worker, it has begun it when this returns.
func (s *site) started(spec job.Spec) *jobs.Run {
	s.t.Helper()
	spec.Pool = "p"
	run, err := s.jobs.Start(s.t.Context(), spec, nil)
	require.NoError(s.t, err)
	if s.worker != nil {
		eventually(s.t, "a report of "+spec.Name, func() bool {
			report, err := run.Report(s.t.Context())
			return err == nil && report.Job != ""
		})
	}
	return run
}

func (s *site) makeJob(name string) {
	s.running = append(s.running, name)
	s.started(job.Spec{Name: name, Files: &job.Files{Input: []string{s.path("in.txt")}}, Output: s.path(name + ".out"), Format: "text", Grace: time.Millisecond})
}

func (s *site) makeFeed(name string) {
	s.running = append(s.running, name, wire.LegID(name, 1))
	s.started(job.Spec{Name: name, Feed: &job.Feed{}, Output: s.path(name + ".out")})
	if s.worker == nil {
		return
	}
	feed := jobs.NewFeed[string, string](s.jobs, name, jobs.FeedOptions{})
	defer feed.Release()
	_, err := feed.State(s.t.Context())
	require.NoError(s.t, err)
}

func (s *site) makeStopped(name string) {
	run := s.started(job.Spec{Name: name, Files: &job.Files{Input: []string{s.path("in.txt")}}, Output: s.path(name + ".out"), Format: "text"})
	require.NoError(s.t, run.Stop(s.t.Context(), job.Stop{Grace: "1ms"}))
	report, err := run.Wait(s.t.Context())
	require.NoError(s.t, err)
	require.Equal(s.t, job.Stopped, report.State)
}

func (s *site) makeFaulty(name string) {
	run := s.started(job.Spec{
		Name: name, Files: &job.Files{Input: []string{s.path("bad.txt")}}, Output: s.path(name + ".out"), Format: "text",
		Attempts: 1,
	})
	report, err := run.Wait(s.t.Context())
	require.NoError(s.t, err)
	require.EqualValues(s.t, 1, report.Failed)
}

func (s *site) makeEnded(name string) {
	s.started(job.Spec{Name: name, Files: &job.Files{Input: []string{s.path("in.txt")}}, Output: s.path(name + ".out"), Format: "text"})
	require.NoError(s.t, s.jobs.Get(name).Terminate(s.t.Context(), ""))
}

func (s *site) makeEndedLoop(name string) {
	s.started(job.Spec{Name: name, Loop: &job.Loop{Every: time.Hour, Slots: 1}})
	require.NoError(s.t, s.jobs.Get(name).Terminate(s.t.Context(), ""))
}

func (s *site) makeSchedule(name string) {
	require.NoError(s.t, s.jobs.Schedule(s.t.Context(), job.Spec{Name: name, Pool: "p", Files: &job.Files{Input: []string{s.path("in.txt")}}, Output: s.path(name + ".out")},
		job.ScheduleOptions{Cron: []string{"@yearly"}}))
}

// attempt is a command that is tried.
type attempt struct {
	*site
	lose    func(*cable) // what becomes of the server if it is lost
	given   string       // from the table
	way     way
	limited bool     // it has a time limit
	line    []string // with names of jobs
	cable   *cable
}

func (a *attempt) String() string {
	return fmt.Sprintf("%s: stint %s", a.trouble.name, strings.Join(a.line, " "))
}

// wave is when a command runs: those that reach all jobs do so when the others have ended.
func (a *attempt) wave() int {
	switch {
	case !strings.Contains(a.given, "--all") && !strings.HasPrefix(a.given, "stop --pool"):
		return 0
	case strings.Contains(a.given, "--terminate"):
		return 2
	}
	return 1
}

// limit is the command's time limit: what it must learn within that takes longer on a slow machine, and if it reaches
// all jobs. A server that answers nothing is given up after some seconds, whatever the limit is.
func (a *attempt) limit() time.Duration {
	limit := max(time.Second, 20*a.startUp)
	switch {
	case a.trouble.deaf:
		return min(limit, 4*time.Second)
	case a.wave() > 0:
		return min(4*limit, 30*time.Second)
	}
	return min(limit, 15*time.Second)
}

// runAll runs all attempts, several beside each other.
func (s *site) runAll() {
	path, err := binary()
	require.NoError(s.t, err)
	for wave := range 3 {
		began := time.Now()
		require.NoError(s.t, exec.Command(path, "version").Run())
		s.startUp = time.Since(began)
		places := make(chan struct{}, atOnce)
		var running sync.WaitGroup
		for _, a := range s.attempts {
			if a.wave() != wave {
				continue
			}
			a.cable = newCable(s.t, s.address)
			places <- struct{}{}
			running.Go(func() {
				defer func() { <-places }()
				began := time.Now()
				if err := a.run(path); err != nil {
					s.t.Errorf("%s: %v", a, err)
				}
				if took := time.Since(began); took > 8*time.Second {
					s.t.Logf("%s: %v", a, took)
				}
			})
		}
		running.Wait()
	}
}

// run runs the command, and returns what is wrong with how it ends.
func (a *attempt) run(path string) error {
	line := slices.Clone(a.line)
	if a.way == limitedTo && a.limited {
		line = append(line, "--timeout", a.limit().String())
	}
	cmd := exec.Command(path, line...)
	cmd.Env = []string{"TEMPORAL_ADDRESS=" + a.cable.address()}
	p, err := a.launch(cmd)
	if err != nil {
		return err
	}
	defer func() { _ = p.discard() }() // it ends with this process
	if !p.until(patience, func() bool { return !a.cable.connected().IsZero() }) {
		return fmt.Errorf("it has not asked the server: exit %d\n%s", p.cmd.ProcessState.ExitCode(), p.stderr.String())
	}
	if a.way == interrupted || a.trouble.lost {
		p.until(patience, a.cable.quiet)
		if a.trouble.lost {
			a.lose(a.cable)
		}
	}
	if a.way == interrupted && p.running() {
		return a.interrupt(p)
	}
	bound := aloneBound
	if a.limited {
		bound = limitBound
	}
	if p.until(bound, func() bool { return false }); p.running() {
		return fmt.Errorf("it has not ended within %v\n%s", bound, p.stderr.String())
	}
	return a.judge(p)
}

// interrupt sends Ctrl-C, and returns what is wrong with how the command ends.
func (a *attempt) interrupt(p *process) error {
	const quickly = 2 * time.Second // no command that waits ends by itself within that
	waits := (a.trouble.deaf || forTheEnd(a.given)) && !a.trouble.atOnce && time.Since(a.cable.connected()) < quickly
	p.signal(syscall.SIGINT)
	if p.until(endBound, func() bool { return false }); p.running() {
		return fmt.Errorf("it has not ended within %v after Ctrl-C\n%s", endBound, p.stderr.String())
	}
	code := p.cmd.ProcessState.ExitCode()
	if code == starter.ExitInterrupted {
		return a.unclear(p.stderr.String())
	}
	if waits && (a.trouble.deaf || code != starter.ExitFailed) { // what answers may just have said that it cannot
		return fmt.Errorf("it has ended with %v after Ctrl-C\n%s", p.cmd.ProcessState, p.stderr.String())
	}
	return a.judge(p)
}

// judge returns what is wrong with how a command has ended by itself.
func (a *attempt) judge(p *process) error {
	code, said := p.cmd.ProcessState.ExitCode(), p.stderr.String()
	late := a.way == limitedTo && a.limited && (a.trouble.deaf || forTheEnd(a.given)) && !a.trouble.atOnce
	switch {
	case late && code != starter.ExitTimeout && (a.trouble.deaf || code != starter.ExitFailed), code < 0, code == starter.ExitUsage, forTheEnd(a.given) && code == starter.ExitOK:
		return fmt.Errorf("it has ended with %v\n%s", p.cmd.ProcessState, said)
	case code == starter.ExitOK:
		return nil
	case !a.trouble.who.MatchString(said) && !(a.serverMayBeLate() && serverIsSilent.MatchString(said)):
		return fmt.Errorf("exit %d, and it does not say who does not answer:\n%s", code, said)
	}
	return a.unclear(said)
}

// unclear returns an error if what a command has said is not for people, or names the server although that answers.
func (a *attempt) unclear(said string) error {
	for _, text := range []string{"context deadline exceeded", "context canceled", "rpc error", "panic"} {
		if strings.Contains(said, text) {
			return fmt.Errorf("it says %q:\n%s", text, said)
		}
	}
	if !a.trouble.deaf && !a.trouble.lost && !a.serverMayBeLate() && serverIsSilent.MatchString(said) {
		return fmt.Errorf("it names the server, which answers:\n%s", said)
	}
	return nil
}

// serverMayBeLate: a short limit may be over before the server of a busy machine has answered.
func (a *attempt) serverMayBeLate() bool { return a.way == limitedTo && a.limited }

// until waits until something holds. It returns false if the process has ended before, or the time is over.
func (p *process) until(limit time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(limit); !holds(); {
		select {
		case <-p.ended:
			return holds()
		case <-time.After(2 * pollEvery):
		}
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// TestNoCommandHangs_Serving: the commands that serve end at Ctrl-C, whether they wait for a server or have lost
// theirs, and wait for one only as long as they are to.
func TestNoCommandHangs_Serving(t *testing.T) {
	t.Parallel()
	path, err := binary()
	require.NoError(t, err)
	for name, line := range map[string][]string{
		"worker":     {"worker", "--pool", "p", "--allow", "all", "--exec", "cat", "--drain", "1s"},
		"feed serve": {"feed", "serve", "--listen", "0", "--drain", "1s"},
		"watch":      {"watch", "--metrics", "0", "--every", "1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			address := b.server().Address()
			run := func(l *cable, more ...string) *process {
				cmd := exec.Command(path, append(slices.Clone(line), more...)...)
				cmd.Env = []string{"TEMPORAL_ADDRESS=" + l.address()}
				return b.spawnCommand(cmd)
			}
			ends := func(p *process, code int, bound time.Duration) {
				t.Helper()
				p.until(bound, func() bool { return false })
				require.False(t, p.running(), "it has not ended within %v: %s", bound, p.stderr.String())
				p.exits(code)
			}
			var lost []*process // their servers, while they serve
			for _, meanwhile := range []func(*cable){(*cable).hold, (*cable).sever} {
				l := newCable(t, address)
				p := run(l)
				p.says(map[string]string{"worker": "serving pool p", "feed serve": "gateway: ", "watch": "metrics: "}[name])
				meanwhile(l)
				p.signal(syscall.SIGINT)
				lost = append(lost, p)
			}
			gone, frozen := newCable(t, ""), newCable(t, address)
			frozen.hold()
			for _, l := range []*cable{gone, frozen} {
				p := run(l)
				p.until(patience, l.quiet)
				p.signal(syscall.SIGINT)
				ends(p, starter.ExitOK, endBound)
				p = run(l, "--wait-for-server", "1s")
				ends(p, starter.ExitFailed, limitBound)
				require.Regexp(t, serverIsSilent, p.stderr.String())
			}
			for _, p := range lost {
				ends(p, starter.ExitOK, endBound)
			}
		})
	}
}
