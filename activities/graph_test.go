package activities

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// graph is a pipeline of ensembles, switches and stages within each other. Its handler answers an item with the stage's name, the kind
// that a switch looks at, and the item; a router answers with the name of a case.
type graph struct {
	*pipeline
	failing, dropping uint32
}

// hashed is a number below n for an item in a stage.
func hashed(what, stage string, item int64, n uint32) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, what, "/", stage, "/", item)
	return h.Sum32() % n
}

// kinds are those of items; the last has no case anywhere.
var kinds = []string{"x", "y", "z"}

// answerOf is what a stage answers.
func (g *graph) answerOf(stage string, item int64, value string) (answer string, end fate) {
	switch n := hashed("fate", stage, item, 10); {
	case n < g.failing:
		return "", fails
	case n < g.failing+g.dropping:
		return "", dropped
	}
	kind := kinds[hashed("kind", stage, item, 3)]
	if strings.HasSuffix(stage, "asked") {
		if hashed("odd", stage, item, 20) == 0 {
			return "17", passes // no text
		}
		return strconv.Quote(kind), passes
	}
	return fmt.Sprintf(`{"s":%q,"k":%q,"v":%s}`, stage, kind, value), passes
}

func (g *graph) each(p *pipeline, c *calls.Call, item calls.Item) {
	stage := p.program[p.step].Name
	switch answer, end := g.answerOf(stage, item.Ordinal, string(item.Data)); end {
	case fails:
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "Broken", Message: stage}}, 1)
	case dropped:
		p.drop(c, item)
	default:
		c.Answer.Line([]byte(answer))
	}
}

// randomStages makes a sequence of stages.
func randomStages(random *rand.Rand, depth int) (all []job.Stage) {
	for i := range 1 + random.IntN(3) {
		all = append(all, randomStage(random, fmt.Sprint("s", i), depth))
	}
	return all
}

func randomStage(random *rand.Rand, name string, depth int) job.Stage {
	kind := random.IntN(6)
	if depth >= 3 {
		kind = 0
	}
	s := job.Stage{Name: name}
	switch kind {
	case 1, 2:
		s.KeepErrors = random.IntN(2) == 0
		for i := range 2 + random.IntN(2) {
			s.Ensemble = append(s.Ensemble, randomStage(random, fmt.Sprint("m", i), depth+1))
		}
	case 3, 4:
		s.Switch = ".k"
		if random.IntN(2) == 0 {
			s.Switch, s.Name = "router", name+"asked"
		}
		for _, value := range kinds[:2] {
			s.Cases = append(s.Cases, job.Case{Value: value, Stage: randomStage(random, "case-"+value, depth+1)})
		}
		if random.IntN(2) == 0 {
			other := randomStage(random, "other", depth+1)
			s.Default = &other
		}
	case 5:
		s.Stages = randomStages(random, depth+1)
	default:
		s.Pool, s.BatchItems = "pool", int64(random.IntN(2)*(1+random.IntN(40)))
	}
	return s
}

// ending is what becomes of an item: a value, or an error, or neither.
type ending struct {
	value       string
	stage, kind string
}

func (e ending) failed() bool { return e.kind != "" }

// modelOf is the pipeline in a few lines. It notes which stages see the item.
type modelOf struct {
	*graph
	item int64
	seen map[string][]int64
}

func (m *modelOf) sequence(all []job.Stage, outer, value string) ending {
	e := ending{value: value}
	for i := range all {
		if e = m.one(&all[i], outer+all[i].Name, e.value); e.value == "" {
			break
		}
	}
	return e
}

func (m *modelOf) one(s *job.Stage, name, value string) ending {
	switch {
	case len(s.Stages) > 0:
		return m.sequence(s.Stages, name+".", value)
	case len(s.Ensemble) > 0:
		return m.ensemble(s, name, value)
	case s.Switch != "":
		return m.route(s, name, value)
	}
	return m.call(name, value)
}

func (m *modelOf) call(name, value string) ending {
	m.seen[name] = append(m.seen[name], m.item)
	switch answer, end := m.answerOf(name, m.item, value); end {
	case fails:
		return ending{stage: name, kind: "Broken"}
	case dropped:
		return ending{}
	default:
		return ending{value: answer}
	}
}

func (m *modelOf) ensemble(s *job.Stage, name, value string) ending {
	var list []string
	var first *ending
	failed, drops := 0, 0
	for i := range s.Ensemble {
		e := m.one(&s.Ensemble[i], name+"."+s.Ensemble[i].Name, value)
		switch {
		case e.failed():
			failed++
			if first == nil {
				first = &e
			}
			list = append(list, strconv.Quote("error "+e.kind))
		case e.value == "":
			drops++
			list = append(list, "null")
		default:
			list = append(list, e.value)
		}
	}
	switch {
	case drops == len(list):
		return ending{}
	case failed == len(list) && s.KeepErrors:
		return ending{stage: name, kind: job.ErrorEnsemble}
	case failed > 0 && !s.KeepErrors:
		return *first
	}
	return ending{value: "[" + strings.Join(list, ",") + "]"}
}

func (m *modelOf) route(s *job.Stage, name, value string) ending {
	var kind string
	var fields struct{ K string }
	if s.ByField() {
		if json.Unmarshal([]byte(value), &fields) == nil && strings.HasPrefix(value, "{") {
			kind = fields.K
		}
	} else {
		answer := m.call(name, value)
		if answer.value == "" {
			return answer
		}
		if json.Unmarshal([]byte(answer.value), &kind) != nil {
			kind = ""
		}
	}
	if kind == "" {
		return ending{stage: name, kind: job.ErrorRoute}
	}
	for i := range s.Cases {
		if s.Cases[i].Value == kind {
			return m.one(&s.Cases[i].Stage, name+"."+s.Cases[i].Name, value)
		}
	}
	if s.Default != nil {
		return m.one(s.Default, name+"."+s.Default.Name, value)
	}
	return ending{stage: name, kind: job.ErrorRoute}
}

// plain is a line of the output in which errors within lists are as the model has them.
func plain(line string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(line, `{"error":`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		var e job.Error
		decoder := json.NewDecoder(strings.NewReader(rest))
		if decoder.Decode(&e) != nil {
			return "not an error: " + rest
		}
		b.WriteString(strconv.Quote("error " + e.Type))
		line = rest[decoder.InputOffset()+1:]
	}
}

// TestPipeline_P2_P3_P4_AnyGraph: whatever the stages, the order, the cuts, the rests and the stops, the output is that of the model, each
// item is counted once, errors have the stage and the item as the job got it, and each stage sees exactly its items, each once.
func TestPipeline_P2_P3_P4_AnyGraph(t *testing.T) {
	t.Parallel()
	const seed = 700
	for round := range uint64(32) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, seed+round)
			items := []int64{0, 1, 10, 100}[round%4]
			var input strings.Builder
			for i := range items {
				fmt.Fprintf(&input, "{\"i\":%d,\"k\":%q}\n", i, kinds[random.IntN(3)])
			}
			g := &graph{failing: uint32(random.IntN(3)), dropping: uint32(random.IntN(3))}
			g.pipeline = newPipeline(t, randomGraph(random), g.each, "in.jsonl", input.String())
			g.spec.BatchItems = 4 + random.Int64N(60)
			head, entries, totals := g.runs(random, random.IntN(4))
			report := g.finish(head)
			g.compare(strings.Split(input.String(), "\n")[:items], entries, totals)
			require.Equal(t, [2]int64{totals.Failed, totals.Dropped}, [2]int64{report.Books.Failed, report.Books.Dropped})
		})
	}
}

// randomGraph makes stages that a job may have.
func randomGraph(random *rand.Rand) []job.Stage {
	for {
		all := randomStages(random, 0)
		s := job.Spec{Name: "n", Input: []string{"i"}, Output: "o", Stages: all}.WithDefaults()
		if s.Validate() == nil {
			return all
		}
	}
}

// compare compares what a job has made of the lines of its input with the model.
func (g *graph) compare(lines []string, entries []Entry, totals job.Totals) {
	t := g.t
	var out strings.Builder
	var errors []failed
	var drops int64
	m := &modelOf{graph: g, seen: map[string][]int64{}}
	offset := int64(0)
	for i, line := range lines {
		m.item = int64(i)
		switch e := m.sequence(g.spec.Stages, "", line); {
		case e.failed():
			errors = append(errors, failed{int64(i), e.stage, g.path("in.jsonl"), line, offset})
		case e.value == "":
			drops++
		default:
			out.WriteString(e.value + "\n")
		}
		offset += int64(len(line)) + 1
	}
	require.Equal(t, out.String(), plain(g.read("out.jsonl")))
	require.Equal(t, errors, g.records(entries))
	require.EqualValues(t, len(errors), totals.Failed)
	require.EqualValues(t, drops, totals.Dropped)
	require.EqualValues(t, len(lines), totals.OK+totals.Failed, "each item is decided once")
	require.Zero(t, totals.Between)
	require.Equal(t, offset, totals.InputBytes)
	seen := map[string][]int64{}
	for step, items := range g.seen {
		if s := &g.program[step]; !s.Gather {
			slices.Sort(items)
			seen[s.Name] = items
		} else {
			require.Empty(t, items)
		}
	}
	for _, s := range g.spec.StagePools() {
		require.Equal(t, cmp.Or(len(m.seen[s.Stage]), 0), len(seen[s.Stage]), "%s sees its items once", s.Stage)
		require.True(t, slices.Equal(m.seen[s.Stage], seen[s.Stage]), "%s: %v, %v", s.Stage, m.seen[s.Stage], seen[s.Stage])
	}
}
