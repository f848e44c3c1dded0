package starter_test

import (
	"fmt"
	"strings"
	"testing"
)

// stagesProgram is the handler of all stages of a pipeline. What it does shows by the item: one of the input is a text,
// the list is that of an ensemble, and each other stage adds to what the item has seen.
const stagesProgram = `
def clean(text):
    number = int(text)
    if number % 101 == 0:
        raise ValueError("no such number")
    return {"n": number, "kind": "xyz"[number % 3], "seen": 1}

def join(members):
    if members[0]["n"] % 103 == 0:
        return stint.DROP
    return "%d %s %d" % (members[0]["n"], members[0]["kind"], sum(member["seen"] for member in members))

def work(item):
    if isinstance(item, str):
        return clean(item)
    if isinstance(item, list):
        return join(item)
    return {**item, "seen": item["seen"] + 1}

def outcome(item):
    try:
        return work(item)
    except ValueError as error:
        return error

def call(items):
    note("witness", *(item for item in items if isinstance(item, str)))
    time.sleep(0.15)
    return [outcome(item) for item in items]

stint.serve(call)
`

// stagesOfChaos has a stage, a switch with two stages in a case, an ensemble, and a stage.
const stagesOfChaos = `
stages:
- {name: clean, pool: p}
- name: route
  switch: .kind
  cases:
    x: {pool: p}
    y: {name: two, stages: [{name: one, pool: p}, {name: other, pool: p}]}
  default: {name: rest, pool: p}
- {name: score, ensemble: [{name: a, pool: p}, {name: b, pool: p}]}
- {name: join, pool: p}
`

// TestChaos_StagesShort is a short round of TestChaos_Stages.
func TestChaos_StagesShort(t *testing.T) {
	t.Parallel()
	withstandStages(t, 20_000, 6)
}

// TestChaos_Stages (P1–P4): whatever fails, the output of a pipeline is that of its stages one after the other.
func TestChaos_Stages(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstandStages(t, 100_000, 30) })
}

// withstandStages is withstand for a pipeline, some of whose items fail, and others are dropped.
func withstandStages(t *testing.T, n, number int) {
	t.Helper()
	c := newChaos(t, n)
	c.handler = c.python("stages.py", stagesProgram)
	var results strings.Builder
	for i := range n {
		switch kind, seen := "xyz"[i%3], []int{3, 4, 3}[i%3]; {
		case i%101 == 0:
			c.failing++
		case i%103 != 0:
			fmt.Fprintf(&results, "\"%d %c %d\"\n", i, kind, 2*seen)
		}
	}
	c.results = results.String()
	c.beginWorkers()
	c.start("out.txt", "-f", c.write("job.yaml", stagesOfChaos), c.write("in.txt", numbers(n)))
	c.rage(c.choose(faults, number))
	c.end(func() string { return c.read("out.txt") })
}
