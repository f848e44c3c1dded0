package predict

import (
	"context"
	"io"
	"math"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Survey describes a job before it runs.
type Survey struct {
	Inputs int `json:"inputs"`
	// OldFiles is how many inputs were left out, because earlier runs have completed them.
	OldFiles int   `json:"old_files,omitempty"`
	Items    int64 `json:"items"`
	// Equal are those that equal one before them, if the job calls these once.
	Equal   int64 `json:"equal,omitempty"`
	Bytes   int64 `json:"bytes"` // uncompressed
	Batches int64 `json:"batches"`
	Legs    int64 `json:"legs"`
	// Steps are those that each batch of a pipeline goes through, one execution each, at most: one in a case of a
	// switch is passed by if no item of the batch belongs to it. 0: the job has no stages.
	Steps int `json:"steps,omitempty"`
	// Events of all histories and Actions that Temporal Cloud bills, without repetitions and rests.
	Events  int64 `json:"events"`
	Actions int64 `json:"actions"`
	// Noticed is what reading the inputs has shown.
	Noticed job.Noticed `json:"noticed,omitzero"`

	table   *inputs.Table
	sources []counted // of the table, as far as they have items
	looks   bool      // the job looks for workers of several pools
}

// counted is a source with the number of its items.
type counted struct{ items, bytes int64 }

// What a job costs: a batch is 3 events and a share of a workflow task; a leg is its own start, commit and end, and in
// the job's history a Plan, a child and the handing over of its places. A job that takes longer than 10 s notes its
// progress on the way: 2 events and 2 actions some ten times, which are not counted here.
const (
	batchEventsTenths = 51
	legEvents         = 34
	jobTasks          = 4                                  // workflow tasks beside those of batches: for the start, and after Plan, Commit and Finish
	jobEvents         = 1 + 3 + 3 + 3 + 2 + 1 + 3*jobTasks // start; Plan, Commit, Finish; search attributes and memo; end
	looksEvents       = 3                                  // that for workers of further pools is an activity
	legActions        = 2 + 1 + 1 + 4                      // child, Plan, Commit, signals
	jobActions        = 1 + 1 + 1 + 1 + 2                  // start, first Plan and Commit, Finish, search attributes and memo
	looksActions      = 1
	quickRate         = 1 << 30 // items in 1,000 s of a handler that gets the largest batches
)

// TakeSurvey reads the inputs of a spec as its job would, and counts. It writes nothing. stdin is the
// input "-".
func TakeSurvey(ctx context.Context, access *store.Access, spec job.Spec, stdin io.Reader) (Survey, error) {
	from := inputs.New(access, stdin)
	defer from.Close()
	s, err := survey(ctx, from, spec)
	if err == nil && spec.Unique {
		s.Equal, err = countEqual(ctx, from, s.table)
	}
	return s, ledger.Plain(err)
}

func survey(ctx context.Context, from *inputs.Inputs, spec job.Spec) (Survey, error) {
	table, err := from.List(ctx, nil, wire.PlanInput{Spec: spec})
	if err != nil {
		return Survey{}, err
	}
	p := from.Dry(table)
	defer p.Close()
	survey := Survey{
		Inputs: table.Count(), OldFiles: table.OldFiles, table: table, sources: make([]counted, len(table.Sources)), Steps: len(pipeline.Compile(spec.Stages)), looks: len(spec.Pools()) > 1,
	}
	for page := 0; ; page++ {
		size := wire.FirstPage
		if page > 0 {
			size = pipeline.Compile(spec.Stages).Page(spec.BatchItems)
		}
		batches := 0
		for batches < size {
			sizing := wire.Sizing{}
			if page > 0 {
				sizing.Rate = quickRate
			}
			items, bytes := inputs.BatchSize(spec, sizing, batches, p.Left())
			batch, err := p.Next(ctx, items, bytes)
			if err == io.EOF {
				survey.close(batches)
				survey.Noticed = p.TakeNoticed()
				return survey, nil
			}
			if err != nil {
				return survey, err
			}
			batches++
			survey.Items += batch.Count
			survey.Bytes += batch.Length
			survey.sources[batch.Source].items += batch.Count
			survey.sources[batch.Source].bytes += batch.Length
		}
		survey.close(batches)
	}
}

// close counts a page.
func (s *Survey) close(batches int) {
	s.Batches += int64(batches)
	if batches > 0 {
		s.Legs++
	}
	s.Events, s.Actions = s.cost()
}

// rounds returns how many batches each of so many slots runs, one after the other.
func (s *Survey) rounds(parallel int) float64 {
	n := float64(s.Batches) / float64(parallel)
	if s.Batches < 4*int64(parallel) {
		n = math.Ceil(n) // otherwise they end at about the same time
	}
	return n
}

// executions returns how many the batches have.
func (s *Survey) executions() int64 { return s.Batches * int64(max(1, s.Steps)) }

// cost returns what the batches and legs come to in events of history and actions.
func (s *Survey) cost() (events, actions int64) {
	inJob := min(s.Legs, 1) // the first leg is run by the job itself
	executions := s.executions()
	events, actions = executions*batchEventsTenths/10+(s.Legs-inJob)*legEvents+jobEvents, executions+(s.Legs-inJob)*legActions+jobActions
	if s.looks {
		events, actions = events+looksEvents, actions+looksActions
	}
	return events, actions
}
