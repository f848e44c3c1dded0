package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
)

// rows lists the comparisons. The limits are those that the design sets for two cores.
func (b *bench) rows() []row {
	return slices.Concat(b.throughputRows(), b.reuseRows(), b.eachRows(), b.httpRows(), b.rateRows(), b.waitingRows(), b.feedRows(), b.stageRows(), b.loopRows(), b.latencyRows(), b.serverRows())
}

func (b *bench) throughputRows() []row {
	million, tenMillion := b.items(1_000_000), b.items(10_000_000)
	return []row{
		b.goRow("go handler, 1M items", "≤ 1.2", "bare-go", million, 100),
		b.goRow("go handler, 10M items", "≤ 0.45", "bare-go", tenMillion, 100),
		b.goRow("go handler, 10M items, same codec", "≤ 1.05", "bare-go-json", tenMillion, 100),
		b.execRow("exec tr, 1M items", "≤ 1.0", million),
		b.execRow("exec tr, 10M items", "≤ 0.55", tenMillion),
		b.filterRow("exec tr, 10M items, filter alone", "≤ 2.0", tenMillion),
		b.badRow("exec grep, 10M items, 1 % bad", "≤ 1.15", tenMillion),
		{
			name: "10 items", limit: "≤ 0.25 s", before: b.fresh,
			stint: func() *exec.Cmd { return b.run1("tr a-z A-Z", b.data("ten", 10, 100)) },
		},
		{
			name: "1,000 batches of 1,000 items", limit: "≤ 6.2 events", before: b.fresh,
			stint: func() *exec.Cmd { return b.role("stint-batches", b.data("items-1000000-100", 1_000_000, 100)) },
			note:  func() string { return b.histories("stint-batches") },
		},
		b.goRow("go handler, 1 KB items", "", "bare-go", b.items(300_000), 1000),
		b.goRow("go handler, 1 MB items", "", "bare-go", b.items(300), 1_000_000),
		{
			name: "handler sleeps 1 ms, 64 slots", before: b.fresh,
			stint: func() *exec.Cmd { return b.role("stint-sleep", b.lines(b.items(50_000))) },
			peer:  func() *exec.Cmd { return b.role("bare-sleep", b.lines(b.items(50_000))) },
		},
		{
			name: "empty handler, batches of 1", limit: "≤ 1.1", before: b.fresh,
			stint: func() *exec.Cmd { return b.role("stint-empty", b.lines(b.items(2000))) },
			peer:  func() *exec.Cmd { return b.role("temporal-empty", strconv.Itoa(b.items(2000))) },
			note:  func() string { return "against a bare workflow with as many empty activities" },
		},
		b.serveRow("≤ 0.8", b.items(500_000), 1),
		b.serveRow("≤ 0.55", b.items(2_000_000), 32),
		b.serveRow("≤ 0.55", b.items(2_000_000), 1000),
		b.asyncRow("≤ 1.3", b.items(10_000)),
		b.filesRow("plan files of one line", "plan-files", b.items(100_000)),
		b.filesRow("resume over files of one line", "resume-files", b.items(100_000)),
		b.figureRow("timer, Go handler", "< 2 µs", "timers", 20),
		b.figureRow("timer, isolated Go handler", "< 100 µs", "timers-isolated", 20),
		b.figureRow("round over 100,000 timers", "< 5 ms", "round", 1),
		b.figureRow("killed program replaced", "< 20 ms", "restart", 40),
	}
}

// latencyRows are of clusters of real processes. Each has some seconds of waiting in it, so they are done
// in one round of many.
func (b *bench) latencyRows() []row {
	const told, taken = "stop to last call told, ", "SIGKILL to batches elsewhere, back-off "
	return []row{
		b.latencyRow(told+"pushed", "p99 ≤ "+brief(pushLimit), "stops-pushed", clusterWorkers*clusterSlots),
		b.latencyRow(told+"paced leg", "p99 ≤ "+brief(longLegLimit), "stops-paced", 500),
		b.latencyRow(told+"heartbeats", "p99 ≤ "+brief(heartbeatLimit()), "stops-heartbeats", clusterWorkers*clusterSlots),
		b.latencyRow(taken+"1 s", "max ≤ "+brief(killLimit(limits.DefaultBackoff)), "kills", killCalls),
		b.latencyRow(taken+"1 ms", "max ≤ "+brief(killLimit(time.Millisecond)), "kills-at-once", killCalls),
	}
}

func (b *bench) items(n int) int { return max(1, int(float64(n)*b.scale)) }

// fresh throws the state of earlier runs away.
func (b *bench) fresh() error { return os.RemoveAll(filepath.Join(b.dir, "state")) }

func (b *bench) goRow(name, limit, peer string, items, size int) row {
	file := fmt.Sprintf("items-%d-%d", items, size)
	return row{
		name: name, limit: limit, before: b.fresh,
		stint: func() *exec.Cmd { return b.role("stint-go", b.data(file, items, size)) },
		peer:  func() *exec.Cmd { return b.role(peer, b.data(file, items, size)) },
		note:  func() string { return b.histories("stint-go") },
	}
}

func (b *bench) execRow(name, limit string, items int) row {
	file := fmt.Sprintf("items-%d-100", items)
	return row{
		name: name, limit: limit, before: b.fresh,
		stint: func() *exec.Cmd { return b.run1("tr a-z A-Z", b.data(file, items, 100)) },
		peer:  func() *exec.Cmd { return b.parallel(b.data(file, items, 100)) },
		note: func() string {
			if _, err := exec.LookPath("parallel"); err != nil {
				return "parallel is not installed"
			}
			return "against parallel --pipe -k -j2 --block 10M"
		},
	}
}

// filterRow compares a job of one filter with the filter alone, from a file to a file.
func (b *bench) filterRow(name, limit string, items int) row {
	return row{
		name: name, limit: limit, before: b.fresh,
		stint: func() *exec.Cmd { return b.run1("tr a-z A-Z", b.lines(items)) },
		peer: func() *exec.Cmd {
			return exec.Command("sh", "-c", fmt.Sprintf("tr a-z A-Z < %s > %s", b.lines(items), filepath.Join(b.dir, "peer.out")))
		},
		note: func() string { return "against tr a-z A-Z < in > out" },
	}
}

// badRow compares a job in which one line of a hundred is not in its format with the same one without them.
func (b *bench) badRow(name, limit string, items int) row {
	run := func(input string, status int) *exec.Cmd {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("rm -rf state; %s run --quiet --exec 'grep .' %s -o stint.out --state state; test $? = %d",
			b.stint, input, status))
		cmd.Dir = b.dir
		return cmd
	}
	return row{
		name: name, limit: limit,
		stint: func() *exec.Cmd { return run(b.badLines(items), 3) },
		peer:  func() *exec.Cmd { return run(b.lines(items), 0) },
		note:  func() string { return "against the same job without bad lines" },
	}
}

// run1 is `stint run` with a filter, as a user would start it.
func (b *bench) run1(filter, input string) *exec.Cmd {
	cmd := exec.Command(b.stint, "run", "--quiet", "--exec", filter, input, "-o", filepath.Join(b.dir, "stint.out"), "--state", filepath.Join(b.dir, "state"))
	cmd.Dir = b.dir
	return cmd
}

func (b *bench) parallel(input string) *exec.Cmd {
	if _, err := exec.LookPath("parallel"); err != nil {
		return nil
	}
	return exec.Command("sh", "-c", fmt.Sprintf("parallel --pipe -k -j2 --block 10M tr a-z A-Z < %s > %s", input, filepath.Join(b.dir, "peer.out")))
}

// serveRow compares feeding a serve program with a bare loop that does.
func (b *bench) serveRow(limit string, items, callItems int) row {
	input := func() string { return b.lines(items) }
	more := []string{strconv.Itoa(items), strconv.Itoa(callItems), b.child, "echo"}
	return row{
		name: fmt.Sprintf("serve echo, calls of %d", callItems), limit: limit, before: b.fresh,
		stint: func() *exec.Cmd { return b.role("stint-serve", input(), more...) },
		peer:  func() *exec.Cmd { return b.role("bare-serve", input(), more...) },
		note:  func() string { return fmt.Sprintf("%s items, one slot", text.Thousands(int64(items))) },
	}
}

// figureRow returns a measurement that a role makes itself, over a few items.
func (b *bench) figureRow(name, limit, role string, items int) row {
	return row{
		name: name, limit: limit, before: b.fresh,
		stint:  func() *exec.Cmd { return b.role(role, b.data(fmt.Sprintf("few-%d", items), items, 100), b.child) },
		figure: func() (time.Duration, error) { return b.figure(role) },
		note:   func() string { return b.read(role, ".note") },
	}
}

// filesRow is about a directory of small files, of which there are a million with -scale 10.
func (b *bench) filesRow(name, role string, files int) row {
	return row{
		name: name, limit: "≤ 60 s, 500 MB for 1M", before: b.fresh,
		stint:   func() *exec.Cmd { return b.role(role, b.files(files)) },
		figure:  func() (time.Duration, error) { return b.figure(role) },
		note:    func() string { return b.read(role, ".note") },
		failure: func() string { return b.read(role, ".failure") },
	}
}

// latencyRow returns a figureRow that the bench fails over if its limit is exceeded. What it does often
// enough is not done in rounds.
func (b *bench) latencyRow(name, limit, role string, items int) row {
	r := b.figureRow(name, limit, role, items)
	r.once = true
	r.failure = func() string { return b.read(role, ".failure") }
	return r
}

// role runs this program in another part.
func (b *bench) role(name, input string, more ...string) *exec.Cmd {
	args := append([]string{"role", name, input, b.output(name), filepath.Join(b.dir, "state")}, more...)
	cmd := exec.Command(b.self, args...)
	cmd.Dir = b.dir
	return cmd
}

// output returns where a role writes its results.
func (b *bench) output(role string) string { return filepath.Join(b.dir, role+".out") }

// histories returns what a role has written about its job's histories.
func (b *bench) histories(role string) string { return b.read(role, ".histories") }

// read returns what a role has written beside its output, "" if that is nothing.
func (b *bench) read(role, suffix string) string {
	text, err := os.ReadFile(b.output(role) + suffix)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// figure returns what a role has found out, and report writes it.
func (b *bench) figure(role string) (time.Duration, error) {
	return time.ParseDuration(b.read(role, ".figure"))
}

func report(output string, figure time.Duration, note string) error {
	if err := os.WriteFile(output+".note", []byte(note), 0o644); err != nil {
		return err
	}
	return os.WriteFile(output+".figure", []byte(figure.String()), 0o644)
}

// reportLimited reports a figure, and that the worst one exceeds a limit if it does.
func reportLimited(output string, figure, worst, limit time.Duration, note string) error {
	failure := ""
	if worst > limit {
		failure = fmt.Sprintf("%v is above the limit of %v", brief(worst), limit)
	}
	if err := os.WriteFile(output+".failure", []byte(failure), 0o644); err != nil {
		return err
	}
	return report(output, figure, note)
}

// lines makes, once, a file of so many items of 100 bytes.
func (b *bench) lines(items int) string {
	return b.data(fmt.Sprintf("items-%d-100", items), items, 100)
}

// data makes, once, a file of JSONL items of about size bytes each and returns its path.
func (b *bench) data(name string, items, size int) string {
	path := filepath.Join(b.dir, name+".jsonl")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := writeData(path, items, size); err != nil {
		fmt.Fprintln(os.Stderr, "bench: making data:", err)
	}
	return path
}

// badLines makes, once, a file like that of lines in which one of a hundred is cut off.
func (b *bench) badLines(items int) string {
	path := filepath.Join(b.dir, fmt.Sprintf("bad-%d.jsonl", items))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cut := exec.Command("sh", "-c", fmt.Sprintf("sed '0~100s/..$//' %s > %s.tmp && mv %s.tmp %s", b.lines(items), path, path, path))
	if err := cut.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: making data:", err)
	}
	return path
}

func writeData(path string, items, size int) error {
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	filler := strings.Repeat("some text here ", size/15+1)
	for i := range items {
		head := fmt.Sprintf(`{"id":%d,"name":"customer %d","amount":%d,"note":"`, i, i, i*7%1000)
		fmt.Fprintf(w, "%s%s\"}\n", head, filler[:max(0, size-len(head)-3)])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
