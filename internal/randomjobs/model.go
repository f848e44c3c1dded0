package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// outcome is what a job leaves: results in their order, by file, and the ordinals of failed items.
type outcome struct {
	results map[string][]string
	failed  []int
}

// model is what a job has to leave. healed: its failed items have been redriven.
func (j job) model(items []item, healed bool) outcome {
	want := outcome{results: map[string][]string{}}
	for _, i := range items {
		switch {
		case i.kind == "broken", i.kind == "fail" && !healed:
			want.failed = append(want.failed, i.n)
			continue
		case i.kind == "drop":
			continue
		}
		file := ""
		if j.output == "split" {
			file = i.group()
		}
		want.results[file] = append(want.results[file], j.result(i))
	}
	if j.onError == "drop" {
		want.failed = nil
	}
	return want
}

// result is an item's result, in a form in which results are compared.
func (j job) result(i item) string {
	value := i.value + strings.Repeat("+", max(1, j.stages))
	if j.format == "text" {
		return i.text()[:len(i.text())-len(i.value)] + value
	}
	return fields(map[string]any{"n": i.n, "kind": i.kind, "value": value, "group": i.group()})
}

// fields writes an object's fields in one order, numbers as they are in tables.
func fields(object map[string]any) string {
	var all []string
	for _, key := range []string{"n", "kind", "group", "value"} {
		all = append(all, fmt.Sprint(object[key]))
	}
	return strings.Join(all, " ")
}

// comparable is a line of results in the form of [job.result].
func (j job) comparable(line string) string {
	var value any
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil || dec.More() {
		return line
	}
	switch value := value.(type) {
	case string:
		return value
	case map[string]any:
		return fields(value)
	}
	return line
}

// differs says where an outcome differs from the wanted one; empty: nowhere.
func (want outcome) differs(got outcome) string {
	files := slices.AppendSeq(slices.Collect(maps.Keys(want.results)), maps.Keys(got.results))
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		w, g := want.results[file], got.results[file]
		for n := range max(len(w), len(g)) {
			switch {
			case n >= len(w):
				return fmt.Sprintf("results %s: line %d is too many: %s", file, n+1, strconv.Quote(g[n]))
			case n >= len(g):
				return fmt.Sprintf("results %s: line %d is missing: %s", file, n+1, strconv.Quote(w[n]))
			case w[n] != g[n]:
				return fmt.Sprintf("results %s: line %d is %s, not %s", file, n+1, strconv.Quote(g[n]), strconv.Quote(w[n]))
			}
		}
	}
	if !slices.Equal(want.failed, got.failed) {
		return fmt.Sprintf("failed items are %v, not %v", got.failed, want.failed)
	}
	return ""
}
