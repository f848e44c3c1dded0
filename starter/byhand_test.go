package starter_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// byHand runs the programs of a pipeline one after the other, as a person would without stint. It follows what the
// documentation says of stages: an item that a program cannot bear has failed, and skips the others; a blank line
// between two stages does not count as an item.
type byHand struct {
	*box
	pools map[string]string // their programs
	text  bool              // the items are lines of text

	given, failed, dropped map[string]int64 // items, by stage
	blank                  int64            // results of the last stage that are blank lines
}

// outcome is what has become of an item so far: its line, unless it was dropped or has failed.
type outcome struct {
	line            string
	dropped, failed bool
	stage           string // in which it has failed
	fault           job.Error
}

// passed reports whether the item has not failed.
func (o *outcome) passed() bool { return !o.failed }

func (o *outcome) here() bool { return !o.failed && !o.dropped }

// run runs the stages over all lines of an input.
func (h *byHand) run(stages []job.Stage, input string) []*outcome {
	h.given, h.failed, h.dropped, h.blank = map[string]int64{}, map[string]int64{}, map[string]int64{}, 0
	var items []*outcome
	for line := range strings.Lines(input) {
		items = append(items, &outcome{line: strings.TrimSuffix(line, "\n")})
	}
	return h.sequence(stages, "", items, true)
}

// sequence runs stages one after the other. last is whether there are none after them.
func (h *byHand) sequence(stages []job.Stage, outer string, items []*outcome, last bool) []*outcome {
	for i := range stages {
		items = h.one(&stages[i], outer+stages[i].Name, items, last && i == len(stages)-1)
	}
	return items
}

// one runs a stage over the items that are here.
func (h *byHand) one(s *job.Stage, name string, items []*outcome, last bool) []*outcome {
	all := slices.Clone(items)
	var at []int
	var lines []*outcome
	for i, o := range items {
		if o.here() {
			at, lines = append(at, i), append(lines, o)
		}
	}
	switch {
	case len(s.Stages) > 0:
		lines = h.sequence(s.Stages, name+".", lines, last)
	case len(s.Ensemble) > 0:
		lines = h.ensemble(s, name, lines)
	case s.Switch != "":
		lines = h.route(s, name, lines)
	default:
		lines = h.program(s.Pool, name, lines, last)
	}
	for k, i := range at {
		all[i] = lines[k]
	}
	return all
}

// program runs a stage's program.
func (h *byHand) program(pool, name string, items []*outcome, last bool) []*outcome {
	var lines []string
	for _, o := range items {
		lines = append(lines, o.line)
	}
	h.given[name] += int64(len(lines))
	var all []*outcome
	for _, answer := range h.answers(h.pools[pool], lines) {
		o := &outcome{}
		switch {
		case answer.err != nil:
			h.failed[name]++
			o = &outcome{failed: true, stage: name, fault: *answer.err}
		case strings.TrimSpace(answer.line) != "":
			o.line = answer.line
		case last:
			h.blank++
			o.line = answer.line
		default:
			h.dropped[name]++
			o.dropped = true
		}
		all = append(all, o)
	}
	return all
}

// answer is a program's line for one of its input, or what it ends with.
type answer struct {
	line string
	err  *job.Error
}

// answers runs a program over the lines. If it fails, or its lines are not as many, it is run over either half.
func (h *byHand) answers(program string, lines []string) []answer {
	if len(lines) == 0 {
		return nil
	}
	cmd := exec.CommandContext(h.t.Context(), program)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	output, err := cmd.Output()
	all := make([]answer, 0, len(lines))
	for line := range strings.Lines(string(output)) {
		all = append(all, answer{line: strings.TrimSuffix(line, "\n")})
	}
	var exit *exec.ExitError
	switch {
	case err == nil && len(all) == len(lines):
		return all
	case len(lines) > 1:
		half := len(lines) / 2
		return slices.Concat(h.answers(program, lines[:half]), h.answers(program, lines[half:]))
	case errors.As(err, &exit):
		return []answer{{err: &job.Error{Type: "Exit", Message: fmt.Sprintf("exit %d", exit.ExitCode())}}}
	}
	require.NoError(h.t, err)
	return []answer{{err: &job.Error{Type: "Length"}}}
}

// ensemble gives the items to all members, and makes a list of their answers.
func (h *byHand) ensemble(s *job.Stage, name string, items []*outcome) []*outcome {
	var members [][]*outcome
	for i := range s.Ensemble {
		m := &s.Ensemble[i]
		members = append(members, h.one(m, name+"."+m.Name, items, false))
	}
	all := make([]*outcome, len(items))
	for i := range items {
		var list []string
		var first *outcome
		here, failed := 0, 0
		for _, member := range members {
			switch o := member[i]; {
			case o.here():
				here++
				list = append(list, o.line)
			case o.dropped:
				list = append(list, "null")
			default:
				failed++
				fault, err := json.Marshal(map[string]job.Error{"error": o.fault})
				require.NoError(h.t, err)
				list = append(list, string(fault))
				if first == nil {
					first = o
				}
			}
		}
		switch {
		case here+failed == 0:
			all[i] = &outcome{dropped: true}
		case failed == len(members) && s.KeepErrors:
			all[i] = &outcome{failed: true, stage: name}
		case failed > 0 && !s.KeepErrors:
			all[i] = first
		default:
			all[i] = &outcome{line: "[" + strings.Join(list, ",") + "]"}
		}
	}
	return all
}

// route gives each item to its case.
func (h *byHand) route(s *job.Stage, name string, items []*outcome) []*outcome {
	all, ways := make([]*outcome, len(items)), make([][]int, len(s.Cases)+1)
	answers := items
	if !s.ByField() {
		answers = h.program(s.Switch, name, items, false)
	}
	for i, o := range answers {
		if !o.here() {
			all[i] = o
			continue
		}
		value, ok := caseOf(s, o.line)
		way := slices.IndexFunc(s.Cases, func(c job.Case) bool { return c.Value == value })
		switch {
		case ok && way >= 0:
		case ok && s.Default != nil:
			way = len(s.Cases)
		default:
			all[i] = &outcome{failed: true, stage: name}
			continue
		}
		ways[way] = append(ways[way], i)
	}
	for way, at := range ways {
		if len(at) == 0 {
			continue
		}
		stage := s.Default
		if way < len(s.Cases) {
			stage = &s.Cases[way].Stage
		}
		var some []*outcome
		for _, i := range at {
			some = append(some, items[i])
		}
		for k, o := range h.one(stage, name+"."+stage.Name, some, false) {
			all[at[k]] = o
		}
	}
	return all
}

// caseOf is the value that a switch looks at; it is not ok if there is none.
func caseOf(s *job.Stage, line string) (value string, ok bool) {
	if !s.ByField() {
		return value, json.Unmarshal([]byte(line), &value) == nil
	}
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) == nil {
		value, _ = fields[s.Switch[1:]].(string)
	}
	return value, true // an item without the field is of no case, as one with another value
}

// requireLines requires that a file has these lines; there is none if there are none.
func (b *box) requireLines(want, name string) {
	b.t.Helper()
	if want == "" {
		require.NoFileExists(b.t, b.path(name))
		return
	}
	requireSame(b.t, want, b.read(name))
}

// requireFailures requires that those items have failed, in those stages, and that their records have them as the job
// got them.
func (b *box) requireFailures(h *byHand, lines []string, want map[int64]string) {
	b.t.Helper()
	if len(want) == 0 {
		require.NoFileExists(b.t, b.path("out.errors.jsonl"))
		return
	}
	got := map[int64]string{}
	for _, f := range b.failures("out.errors.jsonl") {
		got[f.Item] = f.Stage
		input := strings.TrimSuffix(lines[f.Item], "\n")
		if h.text {
			quoted, err := json.Marshal(input)
			require.NoError(b.t, err)
			input = string(quoted)
		}
		require.Equal(b.t, input, string(f.Input))
	}
	require.Equal(b.t, want, got)
}
