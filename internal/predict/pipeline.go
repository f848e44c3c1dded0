package predict

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/job"
)

// Lane is what runs the stages of one pool.
type Lane struct {
	*Predictor
	Handler calls.Handler
	Setup   Setup
	// Out says why no slot takes calls any more.
	Out func() error
}

// Pipeline describes a job with stages, going by a sample that went through all of them. Its batches, legs, events and actions are those at
// the speed of the slowest stage.
type Pipeline struct {
	Survey
	Sample  Sample            `json:"sample"` // its items, and what became of them at the end; calls of all stages
	Stages  []StagePrediction `json:"stages"` // in the order in which items reach them
	Slowest string            `json:"slowest,omitempty"`
	// Seconds is from the job's start to its end: as long as the slowest pool takes, because all work at the same time, and the time that a
	// batch takes through the others.
	Seconds     Estimate `json:"seconds"`
	Workers     int      `json:"workers"` // of each pool
	BatchItems  int64    `json:"batch_items"`
	ResultBytes int64    `json:"result_bytes"`
}

// StagePrediction is what a sample has shown of one stage.
type StagePrediction struct {
	Stage   string   `json:"stage"`
	Pool    string   `json:"pool"`
	Slots   int      `json:"slots"` // of a worker of the pool
	Items   int64    `json:"items"` // of the job that reach it
	Sample  Sample   `json:"sample"`
	Seconds Estimate `json:"seconds"` // that it takes for the whole job, by itself

	ItemSeconds  Estimate `json:"item_seconds"`  // of one slot
	StartSeconds float64  `json:"start_seconds"` // of a call, beside its items
	CallItems    int64    `json:"call_items"`    // of a call in the job

	model *timeModel
	lane  *Lane
}

// TryPipeline runs a sample of the items that a survey has counted through all stages of a spec, and extrapolates. lanes are its pools, by name; any
// of their predictors may have made the survey.
func TryPipeline(ctx context.Context, survey Survey, spec job.Spec, lanes map[string]*Lane, o SampleOptions) (Pipeline, error) {
	random := rand.New(rand.NewPCG(o.Seed, o.Seed))
	first := lanes[spec.Pool]
	given, format, ordinals, err := first.readLines(ctx, survey, draw(random, survey.Items, o.Items))
	if err != nil {
		return Pipeline{}, err
	}
	p := Pipeline{Survey: survey, Sample: Sample{Items: len(given)}, Workers: first.Setup.Workers}
	t := &tour{ctx: ctx, spec: spec, random: random, ordinals: ordinals, memory: stages.NewMemory(given, format), p: &p}
	for _, line := range given {
		p.Sample.Bytes += int64(len(line.Data))
	}
	began := time.Now()
	for _, step := range stages.Compile(spec.Stages) {
		if err := t.step(&step, lanes[step.Pool]); err != nil {
			return p, err
		}
	}
	p.Sample.Took = time.Since(began)
	p.extrapolate(spec)
	return p, nil
}

// readLines reads the items with these ordinals as lines of one format: text if all are.
func (f *Predictor) readLines(ctx context.Context, survey Survey, ordinals []int64) ([]stages.Line, records.Format, []int64, error) {
	items, err := f.readSample(ctx, survey, ordinals, calls.Lines)
	if err != nil {
		return nil, "", nil, err
	}
	format := records.Text
	for _, item := range items {
		if item.format != records.Text {
			format = records.JSONL
		}
	}
	lines := make([]stages.Line, len(items))
	text := records.Shape{Format: records.Text}
	for i, item := range items {
		data, fault := item.Data, item.fault
		if fault == nil && format != item.format && item.format == records.Text {
			if data, err = text.AppendJSON(nil, &records.Item{Raw: item.Data, Size: int64(len(item.Data))}); err != nil {
				fault = calls.InvalidFault(err)
			}
		}
		lines[i] = stages.Line{Data: data}
		if fault != nil {
			lines[i] = stages.Failed(fault.Err)
		}
	}
	return lines, format, ordinals, nil
}

// tour is the way of a sample through the steps of a pipeline.
type tour struct {
	ctx      context.Context
	spec     job.Spec
	random   *rand.Rand
	ordinals []int64 // of the items
	memory   *stages.Memory
	p        *Pipeline
}

// step has one step run.
func (t *tour) step(s *stages.Step, lane *Lane) error {
	lines, format := t.memory.Read(s)
	if !s.Gather {
		var err error
		if lines, format, err = t.try(s, lane, lines, format); err != nil {
			return err
		}
	}
	if s.Last {
		t.end(lines)
	}
	return t.memory.Write(s, lines, format)
}

// end counts what has become of the items.
func (t *tour) end(lines []stages.Line) {
	s := &t.p.Sample
	for i, line := range lines {
		switch lost := line.Lost(); {
		case lost != nil:
			s.fail(t.ordinals[i], &calls.Fault{Kind: job.KindError, Err: *lost})
		case line.Err != nil:
			s.Dropped++
			s.OK++
		default:
			s.OK++
			s.ResultBytes += int64(len(line.Data)) + 1
		}
	}
}

// try runs the handler of a step over the items that reach it.
func (t *tour) try(s *stages.Step, lane *Lane, lines []stages.Line, format records.Format) ([]stages.Line, records.Format, error) {
	form := lane.Handler.Traits().Form
	shape := &records.Shape{Format: format, MaxItem: int(t.spec.MaxItem)}
	conversion := calls.Conversion{Form: form, Shape: shape}
	out := make([]stages.Line, len(lines))
	stage := StagePrediction{Stage: s.Name, Pool: s.Pool, Slots: lane.Setup.Slots, lane: lane}
	var reached []calls.Item
	for i, line := range lines {
		if line.Err != nil {
			out[i] = line
			continue
		}
		stage.Sample.Items++
		stage.Sample.Bytes += int64(len(line.Data))
		data, err := conversion.Convert(&records.Item{Raw: line.Data, Size: int64(len(line.Data))})
		if err != nil {
			fault := calls.InvalidFault(err)
			stage.Sample.fail(t.ordinals[i], fault)
			out[i] = stages.Failed(fault.Err)
			continue
		}
		reached = append(reached, calls.Item{Ordinal: t.ordinals[i], Data: data})
	}
	index := make(map[int64]int, len(t.ordinals))
	for i, ordinal := range t.ordinals {
		index[ordinal] = i
	}
	began := time.Now()
	cut := cutSample(t.random, reached, lane.Handler.CallSize(), lane.Setup.Slots)
	err := lane.makeCalls(t.ctx, t.spec, cut, lane.Setup.Slots, &stage.Sample, func(ordinal int64, line stages.Line) {
		if form == calls.Lines && !s.Last && line.Err == nil && len(bytes.TrimSpace(line.Data)) == 0 {
			line = stages.Dropped() // between stages a blank line is no item
		}
		out[index[ordinal]] = line
	})
	if errors.Is(err, calls.ErrNoSlot) {
		err = lane.Out()
	}
	if err != nil {
		return nil, "", fmt.Errorf("stage %s: %w", s.Name, err)
	}
	stage.Sample.Took = time.Since(began)
	t.p.Stages = append(t.p.Stages, stage)
	t.p.Sample.Calls += stage.Sample.Calls
	t.p.Sample.FailedCalls += stage.Sample.FailedCalls
	if form == calls.Lines && format == records.Text {
		return out, records.Text, nil
	}
	return out, records.JSONL, nil
}

// extrapolate goes from the sample to the whole job.
func (p *Pipeline) extrapolate(spec job.Spec) {
	drawn := float64(max(1, p.Sample.Items))
	slowest := -1
	for i := range p.Stages {
		s := &p.Stages[i]
		s.Items = int64(math.Round(float64(s.Sample.Items) / drawn * float64(p.Items)))
		s.model = newTimeModel(s.Sample, s.lane.Handler)
		if slowest < 0 || s.work(s.model.fit(s.model.timed)) > p.Stages[slowest].work(p.Stages[slowest].model.fit(p.Stages[slowest].model.timed)) {
			slowest = i
		}
	}
	p.ResultBytes = int64(float64(p.Sample.ResultBytes) / drawn * float64(p.Items))
	if slowest < 0 {
		p.Seconds = Estimate{Value: startSeconds}
		return
	}
	slow := &p.Stages[slowest]
	p.Slowest = slow.Stage
	p.Batches, p.Legs = p.cutBy(spec, slow.lane.Setup.sizing(slow.model.fit(slow.model.timed).each()))
	p.BatchItems = p.Items / max(1, p.Batches)
	p.Events, p.Actions = p.cost()
	for i := range p.Stages {
		p.stage(&p.Stages[i])
	}
	p.Seconds = slow.model.estimate(slow.lane.Setup.Seed, func(s speedOf) float64 { return p.seconds(spec, slow, s) })
}

// work is about how long a stage keeps the slots of its pool busy, in seconds.
func (s *StagePrediction) work(speed speedOf) float64 {
	return speed.each() * float64(s.Items) / float64(s.lane.Setup.parallel(0))
}

// stage completes what is said of a stage.
func (p *Pipeline) stage(s *StagePrediction) {
	share := float64(s.Items) / float64(max(1, p.Items))
	s.model.most = math.Max(1, math.Min(s.model.most, math.Ceil(float64(p.BatchItems)*share))) // a call is of one batch
	speed := s.model.fit(s.model.timed)
	s.StartSeconds, s.CallItems = speed.start, int64(speed.items)
	seed := s.lane.Setup.Seed
	s.ItemSeconds = s.model.estimate(seed, speedOf.each)
	s.Seconds = s.model.estimate(seed, func(speed speedOf) float64 { return p.alone(s, speed) })
}

// alone is how long a stage takes for the whole job with this speed, if it never waits for another one.
func (p *Pipeline) alone(s *StagePrediction, speed speedOf) float64 {
	parallel := float64(s.lane.Setup.parallel(0))
	rounds := float64(p.Batches) / parallel
	if float64(p.Batches) < 4*parallel {
		rounds = math.Ceil(rounds) // otherwise they end at about the same time
	}
	if p.Batches == 0 {
		return 0
	}
	return rounds * (speed.each()*float64(s.Items)/float64(p.Batches) + batchSeconds)
}

// seconds is how long the job takes if its slowest stage has this speed.
func (p *Pipeline) seconds(spec job.Spec, slowest *StagePrediction, speed speedOf) float64 {
	if p.Items == 0 {
		return startSeconds
	}
	pools, ready, through := map[string]float64{}, time.Duration(0), 0.0
	for i := range p.Stages {
		s := &p.Stages[i]
		of := s.model.fit(s.model.timed)
		if s.Stage == slowest.Stage {
			of = speed
		} else {
			through += of.each()*float64(s.Items)/float64(max(1, p.Batches)) + batchSeconds
		}
		pools[s.Pool] += p.alone(s, of)
		ready = max(ready, s.lane.Setup.Ready)
	}
	work := float64(p.executions()) / serverBatches
	for _, busy := range pools {
		work = math.Max(work, busy)
	}
	if spec.JobRate > 0 {
		const thousandths = 1000
		work = math.Max(work, float64(p.Items)*thousandths/float64(spec.JobRate))
	}
	return startSeconds + ready.Seconds() + work + through + float64(p.Bytes+p.ResultBytes)/streamBytes
}
