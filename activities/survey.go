package activities

import (
	"context"
	"io"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Survey is what a job would be.
type Survey struct {
	Inputs  int   `json:"inputs"`
	Items   int64 `json:"items"`
	Bytes   int64 `json:"bytes"` // uncompressed
	Batches int64 `json:"batches"`
	Legs    int64 `json:"legs"`
	// Events of all histories and Actions that Temporal Cloud bills, without repetitions and rests.
	Events  int64 `json:"events"`
	Actions int64 `json:"actions"`

	table   *Table
	sources []counted // of the table, as far as they have items
}

// counted is what one source holds.
type counted struct{ items, bytes int64 }

// What a job costs: a batch is 3 events and a share of a workflow task; a leg is its own start,
// commit and end, and in the job's history a Plan, a child and the handing over of its places.
const (
	batchEventsTenths = 32
	legEvents         = 34
	jobEvents         = 16
	legActions        = 2 + 1 + 1 + 4 // child, Plan, Commit, signals
	jobActions        = 1 + 1 + 1 + 1 // start, first Plan and Commit, Finish
	quickRate         = 1 << 30       // items in 1,000 s of a handler that gets the largest batches
)

// TakeSurvey reads the inputs of a spec as its job would, and counts. It writes nothing.
func TakeSurvey(ctx context.Context, access *store.Access, spec job.Spec, stdin io.Reader) (Survey, error) {
	a := New(Options{Access: access, Stdin: stdin})
	defer a.Close()
	return a.Survey(ctx, spec)
}

// Survey is [TakeSurvey] for activities that there are already.
func (a *Activities) Survey(ctx context.Context, spec job.Spec) (Survey, error) {
	table, err := a.buildTable(ctx, PlanInput{Spec: spec})
	if err != nil {
		return Survey{}, err
	}
	p := &planner{acts: a, table: table, dry: true}
	defer p.close()
	survey := Survey{Inputs: len(table.Sources), table: table, sources: make([]counted, len(table.Sources))}
	for page := 0; ; page++ {
		size := firstPage
		if page > 0 {
			size = fullPage
		}
		batches := 0
		for batches < size {
			sizing := Sizing{}
			if page > 0 {
				sizing.Rate = quickRate
			}
			items, bytes := batchSize(spec, sizing, batches, p.left())
			batch, err := p.next(ctx, items, bytes)
			if err == io.EOF {
				survey.close(batches)
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

// Pages as the job workflow asks for them, but for their growth.
const (
	firstPage = 16
	fullPage  = 1000
)

// close counts a page.
func (s *Survey) close(batches int) {
	s.Batches += int64(batches)
	if batches > 0 {
		s.Legs++
	}
	s.Events, s.Actions = cost(s.Batches, s.Legs)
}

// cost is what so many batches and legs come to in events of history and actions.
func cost(batches, legs int64) (events, actions int64) {
	inJob := min(legs, 1) // the first leg is run by the job itself
	return batches*batchEventsTenths/10 + (legs-inJob)*legEvents + jobEvents, batches + (legs-inJob)*legActions + jobActions
}
