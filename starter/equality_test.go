package starter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// What pipelines of real programs make of their items is what the same programs make of them if they are run one after
// the other by hand (see byhand_test.go).

// stageOf returns a filter in awk for the first item in a line, which it marks with the stage's name and the length of
// what it got. Of so many items it fails one, and drops another; it answers a third with an empty line, which is no
// item either, and a fourth with an empty text. What has no item, such as an empty text, passes.
func (b *box) stageOf(name string, fail, drop, blank, empty rule) string {
	b.t.Helper()
	return b.script(name, fmt.Sprintf(`exec awk '
!match($0, /[{]"n":[^{}]*[}]/) { print; next }
{ item = substr($0, RSTART, RLENGTH); n = substr(item, 6) + 0 }
n %% %d == %d { exit 3 }
n %% %d == %d { print ""; next }
n %% %d == %d { print " \t"; next }
n %% %d == %d { print "\"\""; next }
{ sub(/"s":"/, "&%s" length($0) ".", item); print item }'`, fail.of, fail.rest, drop.of, drop.rest, blank.of, blank.rest, empty.of, empty.rest, name))
}

// routerOf returns a filter that answers with the name of a case: x, y, or one that there may be none of. It fails and
// drops items, too.
func (b *box) routerOf(name string, fail, drop rule) string {
	b.t.Helper()
	return b.script(name, fmt.Sprintf(`exec awk '
{ n = match($0, /"n":/) ? substr($0, RSTART + 4) + 0 : 0 }
n %% %d == %d { exit 3 }
n %% %d == %d { print ""; next }
{ print "\"" substr("xxyyxyz", n %% 7 + 1, 1) "\"" }'`, fail.of, fail.rest, drop.of, drop.rest))
}

// rule is which items something happens to: those whose number has the rest.
type rule struct{ of, rest int }

// grower makes stages at random.
type grower struct {
	*box
	random *rand.Rand
	items  int
	names  int
	pools  map[string]string // their programs
}

// rare is a rule for one of so many items, or a few more.
func (g *grower) rare(of int) rule {
	of += g.random.IntN(of)
	return rule{of, g.random.IntN(of)}
}

// some is a rule for so many of the items, about.
func (g *grower) some(n int) rule { return g.rare(max(4, g.items/n)) }

func (g *grower) name() string {
	g.names++
	return fmt.Sprint("s", g.names)
}

func (g *grower) pool() job.Stage {
	s := job.Stage{Name: g.name()}
	s.Pool = "p" + s.Name
	g.pools[s.Pool] = g.stageOf(s.Name, g.some(2), g.rare(7), g.rare(11), g.rare(13))
	if g.random.IntN(4) == 0 {
		s.BatchItems = int64(20 + g.random.IntN(200))
	}
	if g.random.IntN(4) == 0 {
		s.Window = 1 + g.random.IntN(4)
	}
	return s
}

// stage makes one of any kind.
func (g *grower) stage(depth int) job.Stage {
	if depth > 2 || g.names > 9 {
		return g.pool()
	}
	switch s := (job.Stage{Name: g.name()}); g.random.IntN(5) {
	case 0:
		s.KeepErrors = g.random.IntN(2) == 0
		for range 2 + g.random.IntN(2) {
			if s.KeepErrors {
				s.Ensemble = append(s.Ensemble, g.pool())
			} else {
				s.Ensemble = append(s.Ensemble, g.stage(depth+1))
			}
		}
		return s
	case 1, 2:
		s.Switch = ".k"
		if g.random.IntN(2) == 0 {
			s.Switch = "r" + s.Name
			g.pools[s.Switch] = g.routerOf(s.Switch, g.some(2), g.rare(13))
		}
		for _, value := range []string{"x", "y"} {
			s.Cases = append(s.Cases, job.Case{Value: value, Stage: g.stage(depth + 1)})
		}
		if g.random.IntN(2) == 0 {
			other := g.stage(depth + 1)
			s.Default = &other
		}
		return s
	case 3:
		s.Stages = g.sequence(depth + 1)
		return s
	}
	return g.pool()
}

// sequence makes one to three stages. One that a pool runs follows each that may answer with lists, and makes items of
// them.
func (g *grower) sequence(depth int) (all []job.Stage) {
	for range 1 + g.random.IntN(3) {
		s := g.stage(depth)
		if all = append(all, s); s.Pool == "" {
			all = append(all, g.pool())
		}
	}
	if n := len(all); depth == 0 && n > 1 && all[n-2].Pool == "" && g.random.IntN(2) == 0 {
		delete(g.pools, all[n-1].Pool)
		all = all[:n-1]
	}
	return all
}

// graph makes stages that a job may have.
func (g *grower) graph() []job.Stage {
	for {
		g.names, g.pools = 0, map[string]string{}
		all := g.sequence(0)
		spec := job.Spec{Name: "n", Files: &job.Files{Input: []string{"i"}}, Output: "o", Stages: all}.WithDefaults()
		if spec.Validate() == nil {
			return all
		}
	}
}

// flow writes stages as a job file has them.
func flow(stages []job.Stage) string {
	var all []string
	for i := range stages {
		all = append(all, flowOf(&stages[i]))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func flowOf(s *job.Stage) string {
	keys := []string{"name: " + s.Name}
	add := func(condition bool, format string, args ...any) {
		if condition {
			keys = append(keys, fmt.Sprintf(format, args...))
		}
	}
	add(s.Pool != "", "pool: %s", s.Pool)
	add(s.BatchItems > 0, "batch-items: %d", s.BatchItems)
	add(s.Window > 0, "window: %d", s.Window)
	add(len(s.Ensemble) > 0, "ensemble: %s, fail-fast: %v", flow(s.Ensemble), !s.KeepErrors)
	add(len(s.Stages) > 0, "stages: %s", flow(s.Stages))
	add(s.Switch != "", "switch: %s", s.Switch)
	var cases []string
	for i := range s.Cases {
		cases = append(cases, s.Cases[i].Value+": "+flowOf(&s.Cases[i].Stage))
	}
	add(len(cases) > 0, "cases: {%s}", strings.Join(cases, ", "))
	if s.Default != nil {
		add(true, "default: %s", flowOf(s.Default))
	}
	return "{" + strings.Join(keys, ", ") + "}"
}

// kindsOf is an input of n items, each of one of three kinds.
func kindsOf(random *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"n\":%d,\"k\":\"%c\",\"s\":\"\"}\n", i, "xyz"[random.IntN(3)])
	}
	return b.String()
}

// TestEquality_P1_P2_P3_P4_AnyGraph: whatever the stages, also one within another, with items that fail, are dropped or
// have an empty result in any of them: byte for byte the output of the programs, run one after the other by hand.
func TestEquality_P1_P2_P3_P4_AnyGraph(t *testing.T) {
	t.Parallel()
	const rounds = 3
	for _, n := range []int{0, 1, 10, 2000} {
		for round := range rounds {
			t.Run(fmt.Sprintf("graph %d of %d items", round+1, n), func(t *testing.T) {
				t.Parallel()
				random := seed(t)
				b := setup(t)
				input := kindsOf(random, n)
				for {
					g := &grower{box: b, random: random, items: n}
					stages := g.graph()
					h := &byHand{box: b, pools: g.pools}
					outcomes := h.run(stages, input)
					if n >= 10 && !slices.ContainsFunc(outcomes, (*outcome).passed) {
						continue // "nothing works" would end the job
					}
					t.Logf("stages: %s", flow(stages))
					b.requireEqual(h, "in.jsonl", input, stages, outcomes, 1+random.IntN(1+n/2))
					return
				}
			})
		}
	}
}

// TestEquality_P1_Sequence: three programs over many lines of text.
func TestEquality_P1_Sequence(t *testing.T) {
	t.Parallel()
	const n = 200_000
	b := setup(t)
	h := &byHand{box: b, text: true, pools: map[string]string{
		"mark":  b.script("mark", `exec awk '/0000005|0012345|0019998|0150000/ { exit 3 } /777$/ { print ""; next } { print "mark " $0 " " NF }'`),
		"turn":  b.script("turn", `exec sed -e '/ 0003001 \| 0140404 /q3' -e '/888 1$/s/.*//' -e '/889 1$/s/.*/ /' -e 's/\(.*\) \(.*\) \(.*\)/\3 \2 \1/'`),
		"upper": b.script("upper", `tr a-z A-Z | sed -e '/ 0000123 \| 0161616 /d' -e '/999 MARK/s/.*//'`),
	}}
	stages := []job.Stage{{Name: "first", Pool: "mark"}, {Name: "second", Pool: "turn"}, {Name: "third", Pool: "upper"}}
	outcomes := h.run(stages, numbers(n))
	for _, stage := range []string{"first", "second", "third"} {
		require.Positive(t, h.failed[stage], stage)
		require.Positive(t, h.dropped[stage]+h.blank, stage)
	}
	b.requireEqual(h, "in.txt", numbers(n), stages, outcomes, 0)
}

// requireEqual runs the stages in batches of so many items, 0: automatic ones, and requires what they come to by hand.
func (b *box) requireEqual(h *byHand, name, input string, stages []job.Stage, outcomes []*outcome, batch int) {
	b.t.Helper()
	var file, want, dropped strings.Builder
	fmt.Fprintf(&file, "input: %s\noutput: out\nformat: %s\nattempts: 1\nbackoff: 1ms\n", b.write(name, input), map[bool]string{true: "text", false: "jsonl"}[h.text])
	if batch > 0 {
		fmt.Fprintf(&file, "batch-items: %d\n", batch)
	}
	fmt.Fprintf(&file, "stages: %s\npools:\n", flow(stages))
	for pool, program := range h.pools {
		fmt.Fprintf(&file, "  %s: {exec: %q}\n", pool, program)
	}
	b.write("pipeline.yaml", file.String())
	failures, code := map[int64]string{}, starter.ExitOK
	lines := strings.SplitAfter(input, "\n")
	for i, o := range outcomes {
		switch {
		case o.failed:
			failures[int64(i)], code = o.stage, starter.ExitSomeFailed
		case o.dropped:
			dropped.WriteString(lines[i])
		default:
			want.WriteString(o.line + "\n")
		}
	}
	b.stint("run", "-f", "pipeline.yaml", "--report", "report.json", "--dropped", "dropped").exits(code)
	requireSame(b.t, want.String(), b.read("out"))
	b.requireLines(dropped.String(), "dropped")
	b.requireFailures(h, lines, failures)
	r := b.report("report.json")
	require.EqualValues(b.t, len(outcomes), r.OK+r.Failed, "%+v", r.Totals)
	require.EqualValues(b.t, len(failures), r.Failed)
	require.EqualValues(b.t, strings.Count(dropped.String(), "\n"), r.Dropped)
	for _, s := range r.Stages {
		require.Equal(b.t, []int64{h.given[s.Stage], h.failed[s.Stage]}, []int64{s.Done, s.Failed}, "stage %s has had, and failed", s.Stage)
	}
}
