package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// job is all that is random about one job. The zero value of a field is its simplest choice.
type job struct {
	seed   uint64
	items  int
	format string // text, jsonl, csv or tsv
	files  int    // that the items lie in; 0: they come on stdin
	packed string // what the files' names end in: "", .gz or .zst
	serve  bool   // a Python program instead of a filter
	each   bool   // the filter runs for each item, instead of for many
	reuse  bool   // it runs again over items of which some have changed, and takes the results of the first run
	unique bool   // many of its items are equal, and are called once
	stages int    // of a pipeline; 0: it has none
	output string // file, gz, dir, stdout, csv or split
	bucket string // what lies in a bucket: "output" and the store, or "both", the input, too; empty: nothing
	feed   bool   // the items are put into a feed: see feed.go
	even   bool   // all items have one length

	// One item in so many is of a kind; 0: none is.
	fails  int // each time
	flaky  int // the first time
	drops  int
	broken int // not in the input's format

	onError string // "" or drop
	heals   bool   // in the end all items succeed, and the failed ones are redriven
	flags   []string
	faults  []fault
}

// fault is something that happens to a run some time after its start, or after the fault before. If it ends the run,
// the same command is given again.
type fault struct {
	kind  string // kill, stop, full, or one of the outages of a bucket; of a feed: see feedFaults
	after time.Duration
}

// ends reports whether the fault ends a run.
func (f fault) ends() bool { return f.kind == "kill" || f.kind == "stop" }

func (f fault) String() string { return fmt.Sprintf("%s after %v", f.kind, f.after) }

// choose chooses a job.
func choose(seed uint64, disk, python bool) job {
	r := rand.New(rand.NewPCG(seed, 1))
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	maybe := func(in int) bool { return r.IntN(in) == 0 }
	oneIn := func() int { return 3 + r.IntN(200) }
	j := job{
		seed: seed, items: 1 + r.IntN(1<<(1+r.IntN(11))), format: one("text", "jsonl", "csv", "tsv"), files: r.IntN(4),
		packed: one("", "", "", ".gz", ".zst"), serve: python && maybe(2), output: one("file", "file", "gz", "dir", "stdout", "csv", "split"),
	}
	if maybe(4) {
		j.stages, j.output = 2+r.IntN(2), one("file", "dir")
	}
	if maybe(5) {
		j.bucket = one("output", "both")
	}
	for _, kind := range []*int{&j.fails, &j.flaky, &j.drops, &j.broken} {
		if maybe(3) {
			*kind = oneIn()
		}
	}
	if maybe(6) {
		j.onError = "drop"
	}
	j.heals = j.stages == 0 && j.onError == "" && j.output != "stdout" && maybe(2)
	j.flags = chooseFlags(r, j)
	for range r.IntN(4) {
		kinds := []string{"kill", "kill", "stop"}
		switch {
		case j.bucket != "":
			kinds = append(kinds, outages...)
		case disk:
			kinds = append(kinds, "full")
		}
		j.faults = append(j.faults, fault{one(kinds...), time.Duration(r.IntN(1200)) * time.Millisecond})
	}
	switch {
	case disk && maybe(30):
		j.wear(r)
	case maybe(8):
		j.feeds(r)
	}
	j.each = maybe(4)
	j.reuse, j.unique = maybe(3), maybe(3)
	return j.sensible()
}

// make makes the job one of a kind; "": it stays. It returns false if there is no such kind.
func (j *job) make(kind string) bool {
	r := rand.New(rand.NewPCG(j.seed, 3))
	switch kind {
	case "":
	case "worn":
		j.wear(r)
	case "buckets":
		j.bucket, j.feed = []string{"output", "both"}[r.IntN(2)], false
		j.faults = nil
		for range 1 + r.IntN(4) {
			kind := append([]string{"kill", "stop"}, outages...)[r.IntN(2+len(outages))]
			j.faults = append(j.faults, fault{kind, time.Duration(r.IntN(1200)) * time.Millisecond})
		}
	case "feeds":
		j.feeds(r)
	case "each":
		j.each, j.stages = true, 0
	case "reuse":
		if j.even { // of many small batches, each of which leaves objects more than its part
			j.flags = nil
		}
		j.reuse, j.feed, j.even = true, false, false
	default:
		return false
	}
	*j = j.sensible()
	return true
}

// wear makes the job one whose legs are worn out by outages, so that they continue as new: many batches of lines of one
// length.
func (j *job) wear(r *rand.Rand) {
	*j = job{seed: j.seed, items: 1500 + r.IntN(1000), format: "text", files: 1, output: "dir", even: true}
	j.flags = []string{"--batch-items", "1", "--window", strconv.Itoa(300 + r.IntN(300)), "--slots", "4"}
	for range 3 + r.IntN(3) {
		j.faults = append(j.faults, fault{"full", time.Duration(1000+r.IntN(2500)) * time.Millisecond})
	}
}

// chooseFlags chooses flags that must not change what a job leaves.
func chooseFlags(r *rand.Rand, j job) []string {
	var flags []string
	add := func(name string, low, high int) {
		if r.IntN(2) == 0 {
			flags = append(flags, name, strconv.Itoa(low+r.IntN(high-low+1)))
		}
	}
	add("--batch-items", 1+j.items/150, 1+j.items)
	add("--window", 1, 40)
	add("--slots", 1, 4)
	add("--concurrency", 1, 3)
	add("--call-items", 1, 20) // lists
	if r.IntN(3) == 0 {
		flags = append(flags, "--batch-bytes", strconv.Itoa(2000+r.IntN(20000)))
	}
	return flags
}

// sensible returns the job without what makes no sense together.
func (j job) sensible() job {
	if j.feed {
		j.files, j.output, j.heals, j.onError, j.broken = 1, "dir", false, "", 0
		j.packed, j.bucket = "", strings.Replace(j.bucket, "both", "output", 1)
		if j.format != "jsonl" {
			j.format = "text"
		}
	} else {
		if at := slices.Index(j.flags, "--capacity"); at >= 0 {
			j.flags = slices.Concat(j.flags[:at], j.flags[at+2:])
		}
		j.faults = slices.DeleteFunc(slices.Clone(j.faults), func(f fault) bool { return slices.Contains(feedFaults, f.kind) })
	}
	if j.output == "stdout" {
		j.bucket = strings.Replace(j.bucket, "output", "", 1)
	}
	if j.bucket == "" {
		j.faults = slices.DeleteFunc(slices.Clone(j.faults), func(f fault) bool { return slices.Contains(outages, f.kind) })
	}
	if j.files == 0 {
		j.packed = ""
	}
	if j.stages > 0 || j.even {
		j.each = false
	}
	if j.feed || j.even {
		j.reuse, j.unique = false, false
	}
	if j.each {
		j.serve, j.items = false, min(j.items, 300) // an item is a process
	}
	if !j.serve { // a filter has a line for each item, and fails as a whole
		j.drops, j.flaky = 0, 0
	}
	if j.format == "text" || j.format == "csv" || j.format == "tsv" {
		j.broken = 0
	}
	if j.format == "text" && (j.output == "csv" || j.output == "split") {
		j.output = "file"
	}
	if j.onError == "drop" {
		j.heals = false
	}
	return j
}

// name is how commands call the job.
const name = "random"

// command returns the command line of the job's run, without the program.
func (j job) command(l *lab, b *bench) []string {
	line := []string{"run", "-q", "--name", name, "--state", b.state, "--ui-port", "0", "--expiry", "5s", "--backoff", "1ms", "--attempts", "2"}
	if j.flaky > 0 {
		line = append(line, "--item-attempts", "3")
	}
	if j.stages > 0 {
		line = append(line, "-f", b.stages)
	} else {
		line = append(line, j.handler(l, b)...)
	}
	line = append(line, "--format", j.format)
	if j.output != "stdout" {
		line = append(line, "-o", b.location(b.output))
	}
	if j.output == "stdout" || j.output == "split" {
		line = append(line, "--errors", b.errors)
	}
	if j.output == "split" {
		line = append(line, "--split", "group")
	}
	if j.onError != "" {
		line = append(line, "--on-error", j.onError)
	}
	if j.reuse {
		line = append(line, "--reuse")
	}
	if j.unique {
		line = append(line, "--unique")
	}
	return append(append(line, j.flags...), b.inputs...)
}
