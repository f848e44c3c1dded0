package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
)

// patience bounds one run. It is long because it only matters if a run hangs.
const patience = 5 * time.Minute

// bench are the files of one try of a job.
type bench struct {
	dir                    string
	outputs                string // on the small disk; empty: in dir
	state, output, errors  string
	marks, program, helper string
	stages                 string // the job file of a pipeline
	inputs                 []string
	stdin                  []byte
	store                  *bucket // nil: there is none. outputs is then a copy of what it has
}

// location returns where commands put an output, and the errors of it.
func (b *bench) location(output string) string {
	if b.store == nil || !strings.HasPrefix(output, b.outputs+"/") {
		return output
	}
	return b.store.at(strings.TrimPrefix(output, b.outputs+"/"))
}

// lay writes the files of a job.
func (l *lab) lay(j job, items []item) (*bench, error) {
	dir, err := os.MkdirTemp(l.dir, "job")
	if err != nil {
		return nil, err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	b := &bench{
		dir: dir, state: at("state"), errors: at("out.errors.jsonl"), marks: at("marks"), program: at("program.py"), stages: at("job.yaml"),
	}
	outputs := dir
	if j.bucket != "" {
		if b.store, err = newBucket(); err != nil {
			return nil, err
		}
		outputs = at("bucket")
		b.outputs = outputs
	} else if l.disk != "" {
		outputs = filepath.Join(l.disk, filepath.Base(dir))
		if err := os.Mkdir(outputs, 0o755); err != nil {
			return nil, err
		}
		b.outputs = outputs
	}
	end := map[string]string{"dir": "/", "csv": ".csv", "gz": ".jsonl.gz", "split": "-{}.jsonl"}[j.output]
	b.output = filepath.Join(outputs, "out") + cmp.Or(end, ".jsonl")
	if j.output != "stdout" && j.output != "split" {
		b.errors = strings.TrimSuffix(b.output, "/") + ".errors.jsonl"
		if j.output == "dir" {
			b.errors = b.output + "errors.jsonl"
		}
	}
	if l.python != "" {
		if b.helper, err = helper(l); err != nil {
			return nil, err
		}
	}
	err = errors.Join(os.Mkdir(b.marks, 0o755), os.WriteFile(b.program, []byte(program), 0o644), j.writeStages(l, b), j.writeInputs(b, items))
	return b, err
}

// clear removes the files of a try.
func (b *bench) clear() error {
	if b.store != nil {
		b.store.close()
	}
	err := os.RemoveAll(b.dir)
	if b.outputs != "" {
		err = errors.Join(err, os.RemoveAll(b.outputs))
	}
	return err
}

// helper returns the directory of the Python helper.
func helper(l *lab) (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "-m", "github.com/stint-run/stint").Output()
	return filepath.Join(strings.TrimSpace(string(out)), "python"), err
}

// writeStages writes the job file of a pipeline.
func (j job) writeStages(l *lab, b *bench) error {
	if j.stages == 0 {
		return nil
	}
	var stages, pools strings.Builder
	flags := j.handler(l, b)
	for n := range j.stages {
		fmt.Fprintf(&stages, "  - {name: s%d, pool: p%d}\n", n, n)
		fmt.Fprintf(&pools, "  p%d: {%s: '%s'}\n", n, strings.TrimPrefix(flags[0], "--"), flags[1])
	}
	file := "stages:\n" + stages.String()
	if !j.feed { // its pools have workers of their own
		file += "pools:\n" + pools.String()
	}
	return os.WriteFile(b.stages, []byte(file), 0o644)
}

// writeInputs writes the items to files, or keeps them for the standard input.
func (j job) writeInputs(b *bench, items []item) error {
	if j.files == 0 {
		b.stdin, b.inputs = j.encode(items), []string{"-"}
		return nil
	}
	ext := cmp.Or(map[string]string{"text": "txt"}[j.format], j.format)
	for n, next := 0, 0; n < j.files; n++ {
		first := next
		for next < len(items) && items[next].source == n {
			next++
		}
		content, err := pack(j.encode(items[first:next]), j.packed)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("in-%d.%s%s", n, ext, j.packed)
		path := filepath.Join(b.dir, name)
		if j.bucket == "both" {
			path, err = b.store.at(name), b.store.put(name, content)
		} else {
			err = os.WriteFile(path, content, 0o644)
		}
		if err != nil {
			return err
		}
		b.inputs = append(b.inputs, path)
	}
	return nil
}

// failure is what is wrong with a job, or with what it has left.
type failure struct{ what string }

func (f *failure) Error() string { return f.what }

func fails(format string, args ...any) error { return &failure{fmt.Sprintf(format, args...)} }

// perform runs a job through its faults to its end and compares what it has left. The error is a [failure] if the job
// failed.
func (l *lab) perform(ctx context.Context, j job, b *bench, items []item) error {
	if j.feed {
		return l.performFeed(ctx, j, b, items)
	}
	line := j.command(l, b)
	ended := -1
	var printed []byte
	for faults := j.faults; ended != exitOK && ended != exitSomeFailed; {
		n := slices.IndexFunc(faults, fault.ends) + 1
		last := n == 0
		if last {
			n = len(faults)
		}
		var err error
		if ended, printed, err = l.runOnce(ctx, b, line, faults[:n], last); err != nil {
			return err
		}
		faults = faults[n:]
	}
	want := j.model(items, false)
	if err := j.compare(b, printed, want, ended); err != nil {
		return err
	}
	heals := j.heals && len(want.failed) > 0
	if heals {
		if err := l.heal(ctx, j, b, items); err != nil {
			return err
		}
	}
	if !j.reuse {
		return nil
	}
	return l.again(ctx, j, b, items, heals)
}

// heal redrives a job whose items all succeed from now on.
func (l *lab) heal(ctx context.Context, j job, b *bench, items []item) error {
	if err := os.WriteFile(filepath.Join(b.marks, healed), nil, 0o644); err != nil {
		return err
	}
	redrive := append([]string{"redrive", name, "--state", b.state}, j.handler(l, b)...)
	ended, printed, err := l.runOnce(ctx, b, redrive, nil, true)
	if err != nil {
		return err
	}
	return j.compare(b, printed, j.model(items, true), ended)
}

// again runs a job that has completed once more, over items of which some have changed.
func (l *lab) again(ctx context.Context, j job, b *bench, items []item, healed bool) error {
	changed := j.change(items)
	b.inputs = nil
	if err := j.writeInputs(b, changed); err != nil {
		return err
	}
	ended, printed, err := l.runOnce(ctx, b, j.command(l, b), nil, true)
	if err != nil {
		return err
	}
	if err := j.compare(b, printed, j.model(changed, healed), ended); err != nil {
		return fails("run again over items of which some have changed: %v", err)
	}
	return nil
}

// Exit statuses of stint.
const (
	exitOK         = 0
	exitSomeFailed = 3
)

// runOnce runs a command through faults. ended is its exit status; -1: it was killed. last: it must end by itself.
func (l *lab) runOnce(ctx context.Context, b *bench, line []string, faults []fault, last bool) (ended int, printed []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.stint, line...)
	var out, messages bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.dir, bytes.NewReader(b.stdin), &out, &messages
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	afflicted, calm := context.WithCancel(ctx)
	over := trap.Go("faults", func() error { l.afflict(afflicted, b, faults, cmd.Process); return nil })
	err = cmd.Wait()
	calm()
	if defect := <-over; defect != nil {
		return 0, nil, defect
	}
	var status *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, nil, fails("%s did not end in %v:\n%s", line[0], patience, tail(messages.String()))
	case err != nil && !errors.As(err, &status):
		return 0, nil, err
	}
	ended = cmd.ProcessState.ExitCode()
	if last && ended != exitOK && ended != exitSomeFailed {
		return 0, nil, fails("%s ended with status %d:\n%s", line[0], ended, tail(messages.String()))
	}
	return ended, out.Bytes(), nil
}

// afflict has faults happen to a process one after the other, until ctx ends.
func (l *lab) afflict(ctx context.Context, b *bench, faults []fault, p *os.Process) {
	for _, f := range faults {
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.after): // the moment of the fault
		}
		switch f.kind {
		case "kill":
			_ = p.Kill() // it may have ended
		case "stop":
			_ = p.Signal(syscall.SIGINT)
		case "full":
			l.fillDisk(ctx)
		default:
			b.store.afflict(f.kind)
		}
	}
}

// diskSize is that of the small disk, of the outputs, in bytes.
const diskSize = 16 << 20

// fullTime is how long a disk is full.
const fullTime = 2 * time.Second

// fillDisk has the small disk be full for a time, or until ctx ends.
func (l *lab) fillDisk(ctx context.Context) {
	path := filepath.Join(l.disk, "fill")
	f, err := os.Create(path)
	if err != nil {
		return // it is full
	}
	for n := 0; err == nil && n < 2*diskSize; n += 4096 { // it cannot be larger
		_, err = f.Write(make([]byte, 4096))
	}
	select {
	case <-ctx.Done():
	case <-time.After(fullTime): // this is the fault
	}
	_ = f.Close()
	_ = os.Remove(path)
}

// tail returns the end of a text.
func tail(text string) string { return text[max(0, len(text)-2000):] }

// compare compares what a job has left with what it had to.
func (j job) compare(b *bench, printed []byte, want outcome, ended int) error {
	got, err := j.left(b, printed)
	if err != nil {
		return fails("reading what the job has left: %v", err)
	}
	if what := want.differs(got); what != "" {
		return fails("%s", what)
	}
	if failed := len(want.failed) > 0; j.onError == "" && failed != (ended == exitSomeFailed) {
		return fails("%d items failed, and the status is %d", len(want.failed), ended)
	}
	return nil
}

// left reads what a job has left.
func (j job) left(b *bench, printed []byte) (outcome, error) {
	got := outcome{results: map[string][]string{}}
	var err error
	if b.store != nil {
		if err = errors.Join(os.RemoveAll(b.outputs), b.store.fetch(b.outputs)); err != nil {
			return got, err
		}
	}
	switch j.output {
	case "stdout":
		got.results[""] = j.lines(printed)
	case "csv":
		got.results[""], err = readTable(b.output)
	case "split":
		for _, group := range []string{"g0", "g1", "g2"} {
			if lines := j.lines(read(strings.ReplaceAll(b.output, "{}", group), &err)); len(lines) > 0 {
				got.results[group] = lines
			}
		}
	case "dir":
		got.results[""], err = j.readParts(b.output)
	case "gz":
		got.results[""] = j.lines(unpack(read(b.output, &err), &err))
	default:
		got.results[""] = j.lines(read(b.output, &err))
	}
	if len(got.results[""]) == 0 {
		delete(got.results, "")
	}
	for line := range bytes.Lines(read(b.errors, &err)) {
		var record struct {
			Item  int             `json:"item"`
			Input json.RawMessage `json:"input"`
		}
		if err := json.Unmarshal(line, &record); err != nil {
			return got, err
		}
		if j.feed { // its ordinals are those of the items' acceptance
			record.Item = numberOf(j.comparable(string(record.Input)))
		}
		got.failed = append(got.failed, record.Item)
	}
	return got, err
}

// read reads a file that need not exist.
func read(path string, err *error) []byte {
	data, failed := os.ReadFile(path)
	if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		*err = errors.Join(*err, failed)
	}
	return data
}

// unpack decompresses a file; one that does not exist is empty.
func unpack(data []byte, err *error) []byte {
	if len(data) == 0 {
		return nil
	}
	r, failed := gzip.NewReader(bytes.NewReader(data))
	if failed == nil {
		data, failed = io.ReadAll(r)
	}
	*err = errors.Join(*err, failed)
	return data
}

// lines are results as they are compared.
func (j job) lines(data []byte) (all []string) {
	for line := range strings.Lines(string(data)) {
		all = append(all, j.comparable(strings.TrimSuffix(line, "\n")))
	}
	return all
}

// readParts reads the results of an output directory as its manifest names them.
func (j job) readParts(dir string) ([]string, error) {
	var err error
	var data []byte
	manifest := read(filepath.Join(dir, "manifest.jsonl"), &err)
	for line := range bytes.Lines(manifest) {
		var entry struct {
			Part string `json:"part"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, err
		}
		data = append(data, read(filepath.Join(dir, entry.Part), &err)...)
	}
	return j.lines(data), err
}

// readTable reads the results of a table.
func readTable(path string) ([]string, error) {
	var err error
	rows, failed := csv.NewReader(bytes.NewReader(read(path, &err))).ReadAll()
	var all []string
	for _, row := range rows[min(1, len(rows)):] {
		object := map[string]any{}
		for n, name := range rows[0] {
			object[name] = row[n]
		}
		all = append(all, fields(object))
	}
	return all, errors.Join(err, failed)
}

// shown returns the command of the job's run; of a feed those that run one without its faults.
func (j job) shown(l *lab, b *bench) string {
	if !j.feed {
		return shown(l.stint, j.command(l, b))
	}
	f := &feedRun{l: l, j: j, b: b}
	lines := []string{shown(l.stint, []string{"server", "--state", b.state})}
	for pool := range max(1, j.stages) {
		lines = append(lines, shown(l.stint, f.workerLine(pool)))
	}
	lines = append(lines, shown(l.stint, f.startLine()))
	for _, c := range j.clients(j.makeItems()) {
		first, last := c.items[0].n, c.items[len(c.items)-1].n
		lines = append(lines, fmt.Sprintf("%s  # items %d to %d", shown(l.stint, c.line()), first, last))
	}
	return strings.Join(append(lines, shown(l.stint, closeLine)), "\n")
}

// shown returns a command as it can be pasted.
func shown(program string, line []string) string {
	words := []string{program}
	for _, word := range line {
		if strings.ContainsAny(word, " '{}?&*<>|;") {
			word = strconv.Quote(word)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
