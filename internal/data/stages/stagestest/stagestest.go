// Package stagestest makes random pipelines for tests, and has a model of what becomes of an item in them.
package stagestest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/job"
)

// Random makes choices, as a *rand.Rand does: 0 is the simplest one.
type Random interface{ IntN(n int) int }

// Kinds are what switches look at: the field "k" of items, and the answers of routers. The last one has no case
// anywhere.
var Kinds = []string{"x", "y", "z"}

// Stages returns stages that a job may have, which are compiled to at most so many steps, at least 1.
func Stages(random Random, most int) []job.Stage {
	for {
		all := sequence(random, 0)
		s := job.Spec{Name: "n", Files: &job.Files{Input: []string{"i"}}, Output: "o", Stages: all}.WithDefaults()
		if s.Validate() == nil && len(pipeline.Compile(s.Stages)) <= most {
			return all
		}
	}
}

func sequence(random Random, depth int) (all []job.Stage) {
	for i := range 1 + random.IntN(3) {
		all = append(all, stage(random, fmt.Sprint("s", i), depth))
	}
	return all
}

func stage(random Random, name string, depth int) job.Stage {
	kind := random.IntN(6)
	if depth >= 3 {
		kind = 0
	}
	s := job.Stage{Name: name}
	switch kind {
	case 1, 2:
		s.KeepErrors = random.IntN(2) == 0
		for i := range 2 + random.IntN(2) {
			s.Ensemble = append(s.Ensemble, stage(random, fmt.Sprint("m", i), depth+1))
		}
	case 3, 4:
		s.Switch = ".k"
		if random.IntN(2) == 0 {
			s.Switch, s.Name, s.Window = "router", name+router, window(random)
		}
		for _, value := range Kinds[:2] {
			s.Cases = append(s.Cases, job.Case{Value: value, Stage: stage(random, "case-"+value, depth+1)})
		}
		if random.IntN(2) == 0 {
			other := stage(random, "other", depth+1)
			s.Default = &other
		}
	case 5:
		s.Stages = sequence(random, depth+1)
	default:
		s.Pool = []string{"pool", "second"}[random.IntN(2)]
		s.BatchItems, s.Window = int64(random.IntN(2)*(1+random.IntN(40))), window(random)
	}
	return s
}

func window(random Random) int { return random.IntN(2) * (1 + random.IntN(6)) }

// router ends the names of stages that answer with a kind.
const router = "asked"

// Fate is what becomes of an item in one stage.
type Fate int

// The fates. An item that fails does so with the type [Broken].
const (
	Passes Fate = iota
	Fails
	Drops
)

// Broken is the type of the error of an item that a stage fails, and Died that of one that kills its workers there.
const (
	Broken = "Broken"
	Died   = "WorkerDied"
)

// Handler is what all stages do: of ten items that a stage gets, about Failing fail and Dropping are dropped. The
// others it answers with its name, a kind, and the item, or with a kind only if it routes items.
type Handler struct{ Failing, Dropping uint32 }

// Answer returns what a stage makes of an item. The same item always gets the same answer.
func (h Handler) Answer(stage, item string) (answer string, end Fate) {
	plain := Plain(item)
	switch n := hashed("fate", stage, plain, 10); {
	case n < h.Failing:
		return "", Fails
	case n < h.Failing+h.Dropping:
		return "", Drops
	}
	kind := Kinds[hashed("kind", stage, plain, 3)]
	if strings.HasSuffix(stage, router) {
		if hashed("odd", stage, plain, 20) == 0 {
			return "17", Passes // not a text
		}
		return strconv.Quote(kind), Passes
	}
	return fmt.Sprintf(`{"s":%q,"k":%q,"v":%s}`, stage, kind, item), Passes
}

// hashed returns a number below n for an item in a stage.
func hashed(what, stage, item string, n uint32) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, what, "/", stage, "/", item)
	sum := h.Sum32()
	return (sum ^ sum>>15) % n
}

// Ending is what becomes of an item in a pipeline: a value, or an error, or neither if it is dropped.
type Ending struct {
	Value       string // see Plain
	Stage, Type string // of the error
}

// Failed reports whether the item has failed.
func (e Ending) Failed() bool { return e.Type != "" }

// Model is a pipeline in a few lines.
type Model struct {
	Handler
	Stages []job.Stage // with their defaults
	// See is called with each item that a stage gets, and Kills reports whether the item at hand kills the stage's
	// workers. Both may be nil.
	See   func(stage, item string)
	Kills func(stage string) bool
}

// Run returns what becomes of an item.
func (m *Model) Run(item string) Ending { return m.sequence(m.Stages, "", item) }

func (m *Model) sequence(all []job.Stage, outer, item string) Ending {
	e := Ending{Value: item}
	for i := range all {
		if e = m.one(&all[i], outer+all[i].Name, e.Value); e.Value == "" {
			break
		}
	}
	return e
}

func (m *Model) one(s *job.Stage, name, item string) Ending {
	switch {
	case len(s.Stages) > 0:
		return m.sequence(s.Stages, name+".", item)
	case len(s.Ensemble) > 0:
		return m.ensemble(s, name, item)
	case s.Switch != "":
		return m.route(s, name, item)
	}
	return m.call(name, item)
}

func (m *Model) call(name, item string) Ending {
	if m.Kills != nil && m.Kills(name) {
		return Ending{Stage: name, Type: Died}
	}
	if m.See != nil {
		m.See(name, item)
	}
	switch answer, end := m.Answer(name, item); end {
	case Fails:
		return Ending{Stage: name, Type: Broken}
	case Drops:
		return Ending{}
	default:
		return Ending{Value: answer}
	}
}

func (m *Model) ensemble(s *job.Stage, name, item string) Ending {
	var list []string
	var first *Ending
	failed, drops := 0, 0
	for i := range s.Ensemble {
		e := m.one(&s.Ensemble[i], name+"."+s.Ensemble[i].Name, item)
		switch {
		case e.Failed():
			failed++
			if first == nil {
				first = &e
			}
			list = append(list, strconv.Quote("error "+e.Type))
		case e.Value == "":
			drops++
			list = append(list, "null")
		default:
			list = append(list, e.Value)
		}
	}
	switch {
	case drops == len(list):
		return Ending{}
	case failed == len(list) && s.KeepErrors:
		return Ending{Stage: name, Type: job.ErrorEnsemble}
	case failed > 0 && !s.KeepErrors:
		return *first
	}
	return Ending{Value: "[" + strings.Join(list, ",") + "]"}
}

func (m *Model) route(s *job.Stage, name, item string) Ending {
	var kind string
	var fields struct{ K string }
	if s.ByField() {
		if json.Unmarshal([]byte(item), &fields) == nil && strings.HasPrefix(item, "{") {
			kind = fields.K
		}
	} else {
		answer := m.call(name, item)
		if answer.Value == "" {
			return answer
		}
		if json.Unmarshal([]byte(answer.Value), &kind) != nil {
			kind = ""
		}
	}
	for i := range s.Cases {
		if kind != "" && s.Cases[i].Value == kind {
			return m.one(&s.Cases[i].Stage, name+"."+s.Cases[i].Name, item)
		}
	}
	if s.Default != nil {
		return m.one(s.Default, name+"."+s.Default.Name, item)
	}
	return Ending{Stage: name, Type: job.ErrorRoute}
}

// Plain returns an item, or a line of the output, in which the errors within lists are as the model has them: only
// their types.
func Plain(line string) string {
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
