// Command bench measures stint against a bare loop and against its peers, as ratios in one run:
// what is compared runs in turn, each in its own process.
//
//	go run ./bench              everything, some eight minutes
//	go run ./bench -scale 0.1   a tenth of the items
//	go run ./bench -only exec   the rows whose names contain "exec"
//
// One row needs a server that runs already, such as one on PostgreSQL, which the cluster test starts, as root:
//
//	go run ./internal/test/clustertest -run 'go run ./bench -only -server -server 10.77.0.1:7233'
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/stint-run/stint/worker"
)

type bench struct {
	dir    string // of data and state
	stint  string // the built program
	child  string // the built serve program
	self   string // this program, for its roles
	scale  float64
	rounds int
	only   string
	server string // HOST:PORT of a Temporal server; "": none
	table  *tabwriter.Writer

	servers map[float64]string // addresses of HTTP servers, by the share of requests that they refuse
}

func main() {
	worker.ChildMain() // its roles start child processes
	if len(os.Args) > 2 && os.Args[1] == "role" {
		if err := role(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	b := &bench{}
	flag.StringVar(&b.dir, "dir", "bench/out", "directory for data and state")
	flag.Float64Var(&b.scale, "scale", 1, "share of the items")
	flag.IntVar(&b.rounds, "rounds", 3, "runs of each; the median counts")
	flag.StringVar(&b.only, "only", "", "rows whose names contain this")
	flag.StringVar(&b.server, "server", "", "HOST:PORT of a Temporal server that runs already, for the rows that need one")
	flag.Parse()
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run() error {
	if err := b.prepare(); err != nil {
		return err
	}
	fmt.Printf("%s, %d CPUs, %s, %s\n\n", runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), runtime.Version(), time.Now().Format(time.DateOnly))
	b.table = tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(b.table, "what\tstint\tpeer\tratio\tlimit\tCPU ratio\tstint memory\tnote")
	var failures []error
	for _, r := range b.rows() {
		if !strings.Contains(r.name, b.only) {
			continue
		}
		if err := b.row(r); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		if r.failure == nil {
			continue
		}
		if failure := r.failure(); failure != "" {
			failures = append(failures, fmt.Errorf("%s: %s", r.name, failure))
		}
	}
	return errors.Join(append(failures, b.table.Flush())...)
}

func (b *bench) prepare() error {
	dir, err := filepath.Abs(b.dir)
	if err != nil {
		return err
	}
	b.dir = dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	b.stint = filepath.Join(dir, "stint")
	b.child = filepath.Join(dir, "child")
	for program, source := range map[string]string{b.stint: ".", b.child: "./bench/child"} {
		build := exec.Command("go", "build", "-o", program, source)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building %s: %w", source, err)
		}
	}
	return nil
}

// row is one comparison. peer may be nil: then there is only stint's figure.
type row struct {
	name  string
	limit string
	stint func() *exec.Cmd
	peer  func() *exec.Cmd
	// peers, instead of peer, are several of stint itself, of which the quickest counts. Each is ended once it has
	// taken longer than the quickest before.
	peers  []func() *exec.Cmd
	before func() error // before each run of stint
	// figure is what stint's process has found out itself. Nil: the time that it has taken counts.
	figure func() (time.Duration, error)
	// ideal, instead of peer, is what the figure should be.
	ideal time.Duration
	note  func() string
	once  bool // in one round
	// failure returns why the last run fails the bench, "" if it does not. Nil: it never does.
	failure func() string
}

// measured is one run of a process.
type measured struct {
	took   time.Duration
	cpu    time.Duration // of all processors, also by the children that it has waited for
	memory int64         // most resident, bytes
}

func (b *bench) row(r row) error {
	var stint, peer []measured
	var ratios, cpu []float64
	rounds := b.rounds
	if r.once {
		rounds = 1
	}
	for range rounds {
		if r.before != nil {
			if err := r.before(); err != nil {
				return err
			}
		}
		m, err := measure(r.stint())
		if err != nil {
			return err
		}
		if r.figure != nil {
			if m.took, err = r.figure(); err != nil {
				return err
			}
		}
		stint = append(stint, m)
		p, err := b.measurePeer(r)
		if err != nil {
			return err
		}
		if p.took == 0 {
			continue
		}
		peer = append(peer, p)
		ratios = append(ratios, m.took.Seconds()/p.took.Seconds())
		if p.cpu > 0 && r.figure == nil {
			cpu = append(cpu, m.cpu.Seconds()/p.cpu.Seconds())
		}
	}
	fmt.Fprintf(b.table, "%s\t%s\t%s\t%s\t%s\t%s\t%d MB\t%s\n", r.name, medianTime(stint), medianTime(peer),
		medianRatio(ratios), r.limit, medianRatio(cpu), median(stint, func(m measured) int64 { return m.memory })>>20, note(r))
	return b.table.Flush()
}

// measurePeer measures the row's peer, or the quickest of several. It returns the zero value if there is none.
func (b *bench) measurePeer(r row) (best measured, err error) {
	if r.ideal > 0 {
		return measured{took: r.ideal}, nil
	}
	if r.peer != nil {
		if cmd := r.peer(); cmd != nil {
			return measure(cmd)
		}
	}
	for _, peer := range r.peers {
		if err := r.before(); err != nil {
			return best, err
		}
		m, err := measureWithin(peer(), best.took)
		switch {
		case errors.Is(err, errLate):
		case err != nil:
			return best, err
		default:
			best = m
		}
	}
	return best, nil
}

func note(r row) string {
	if r.note == nil {
		return ""
	}
	return r.note()
}

func measure(cmd *exec.Cmd) (measured, error) { return measureWithin(cmd, 0) }

// errLate is the end of a process that has taken too long.
var errLate = errors.New("it took too long")

// measureWithin measures a process. It ends it after limit, if that is not 0.
func measureWithin(cmd *exec.Cmd, limit time.Duration) (measured, error) {
	var stderr strings.Builder
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	began := time.Now()
	err := cmd.Start()
	if err == nil {
		late := false
		if limit > 0 {
			ending := make(chan struct{})
			timer := time.AfterFunc(limit, func() {
				late = true
				_ = cmd.Process.Kill()
				close(ending)
			})
			err = cmd.Wait()
			if !timer.Stop() {
				<-ending
			}
		} else {
			err = cmd.Wait()
		}
		if late {
			return measured{}, errLate
		}
	}
	m := measured{took: time.Since(began)}
	if err != nil {
		return m, fmt.Errorf("%s: %w\n%s", cmd, err, stderr.String())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return m, errors.New("no resource usage on this system")
	}
	m.memory = usage.Maxrss << 10
	m.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return m, nil
}

func median[T any, V int64 | float64](of []T, value func(T) V) V {
	if len(of) == 0 {
		return 0
	}
	values := make([]V, len(of))
	for i, v := range of {
		values[i] = value(v)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func medianTime(of []measured) string {
	if len(of) == 0 {
		return "–"
	}
	return brief(time.Duration(median(of, func(m measured) int64 { return int64(m.took) })))
}

// brief returns a time as people read it: to the hundredth of a second, or with three digits if that is more.
func brief(d time.Duration) string {
	unit := 10 * time.Millisecond
	for unit > 1 && d.Abs() < 100*unit {
		unit /= 10
	}
	return d.Round(unit).String()
}

func medianRatio(of []float64) string {
	if len(of) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", median(of, func(r float64) float64 { return r }))
}
