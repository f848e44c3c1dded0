package predict

import (
	"math"
	"time"

	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/job"
)

// Pipeline describes a job with stages, going by a sample that went through all of them. Its batches, legs, events and
// actions are those at the speed of the slowest stage.
type Pipeline struct {
	Survey
	Sample  Sample            `json:"sample"` // its items, and what became of them at the end; calls of all stages
	Stages  []StagePrediction `json:"stages"` // in the order in which items reach them
	Slowest string            `json:"slowest,omitempty"`
	// Seconds is from the job's start to its end: as long as the slowest pool takes, because all work at the same time,
	// and the time that a batch takes through the others.
	Seconds     Estimate `json:"seconds"`
	Workers     int      `json:"workers"` // of each pool
	BatchItems  int64    `json:"batch_items"`
	ResultBytes int64    `json:"result_bytes"`
	Needs
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
	pool  *Sampler
}

// PredictStages is [Drawn.Predict] for a job with stages. pools are the samplers of its pools, by name.
func (d *Drawn) PredictStages(report job.Report, resultBytes int64, pools map[string]*Sampler) Pipeline {
	first := pools[d.spec.Pool]
	p := Pipeline{Survey: d.survey, Sample: d.concluded(Sample{}, report, resultBytes), Workers: first.Setup.Workers}
	p.Sample.Bytes = first.bytesOf(int64(p.Sample.Items))
	reports := map[string]job.StageReport{}
	for _, r := range report.Stages {
		reports[r.Stage] = r
	}
	var began, ended time.Time
	for _, step := range pipeline.Compile(d.spec.Stages) {
		if step.Gather {
			continue
		}
		pool, r := pools[step.Pool], reports[step.Name]
		sample, from, to := pool.of(step.Name)
		sample.Items, sample.OK, sample.Failed, sample.Bytes = int(r.Done), r.Done-r.Failed, r.Failed, pool.bytesOf(r.Done)
		p.Stages = append(p.Stages, StagePrediction{
			Stage: step.Name, Pool: step.Pool, Slots: pool.Setup.Slots, Sample: sample, pool: pool,
		})
		p.Sample.Calls += sample.Calls
		p.Sample.FailedCalls += sample.FailedCalls
		if began.IsZero() || !from.IsZero() && from.Before(began) {
			began = from
		}
		if to.After(ended) {
			ended = to
		}
	}
	p.Sample.Took = ended.Sub(began)
	p.extrapolate(d.spec)
	return p
}

// extrapolate goes from the sample to the whole job.
func (p *Pipeline) extrapolate(spec job.Spec) {
	drawn := float64(max(1, p.Sample.Items))
	slowest := -1
	for i := range p.Stages {
		s := &p.Stages[i]
		s.Items = int64(math.Round(float64(s.Sample.Items) / drawn * float64(p.Items)))
		s.model = newTimeModel(s.Sample, s.pool.handler)
		if slowest < 0 || s.work(s.model.fit(s.model.timed)) > p.Stages[slowest].work(p.Stages[slowest].model.fit(p.Stages[slowest].model.timed)) {
			slowest = i
		}
	}
	p.ResultBytes = int64(float64(p.Sample.ResultBytes) / drawn * float64(p.Items))
	p.Needs = needsOf(p.Sample, p.Items, spec)
	if slowest < 0 {
		p.Seconds = Estimate{Value: startSeconds}
		return
	}
	slow := &p.Stages[slowest]
	p.Slowest = slow.Stage
	p.Batches, p.Legs = p.cutBy(spec, slow.pool.Setup.sizing(slow.model.fit(slow.model.timed).each()))
	p.BatchItems = p.Items / max(1, p.Batches)
	p.Events, p.Actions = p.cost()
	for i := range p.Stages {
		p.stage(&p.Stages[i])
	}
	p.Seconds = slow.model.estimate(slow.pool.Setup.Seed, func(s speedOf) float64 { return p.seconds(spec, slow, s) })
	p.Late = isLate(spec, p.Seconds.Value)
}

// work is about how long a stage keeps the slots of its pool busy, in seconds.
func (s *StagePrediction) work(speed speedOf) float64 {
	return speed.each() * float64(s.Items) / float64(s.pool.Setup.parallel(0))
}

// stage completes what is said of a stage.
func (p *Pipeline) stage(s *StagePrediction) {
	share := float64(s.Items) / float64(max(1, p.Items))
	s.model.most = math.Max(1, math.Min(s.model.most, math.Ceil(float64(p.BatchItems)*share))) // a call is of one batch
	speed := s.model.fit(s.model.timed)
	s.StartSeconds, s.CallItems = speed.start, int64(speed.items)
	seed := s.pool.Setup.Seed
	s.ItemSeconds = s.model.estimate(seed, speedOf.each)
	s.Seconds = s.model.estimate(seed, func(speed speedOf) float64 { return p.alone(s, speed) })
}

// alone returns how long a stage takes for the whole job with this speed, if it never waits for another one.
func (p *Pipeline) alone(s *StagePrediction, speed speedOf) float64 {
	if p.Batches == 0 {
		return 0
	}
	return p.rounds(s.pool.Setup.parallel(0)) * (speed.each()*float64(s.Items)/float64(p.Batches) + batchSeconds)
}

// seconds returns how long the job takes if its slowest stage has this speed.
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
		ready = max(ready, s.pool.Setup.Ready)
	}
	work := float64(p.executions()) / serverBatches
	for _, busy := range pools {
		work = math.Max(work, busy)
	}
	work = math.Max(work, limitedSeconds(spec, p.Items, p.Items, p.Usage))
	return startSeconds + ready.Seconds() + work + through + float64(p.Bytes+p.ResultBytes)/streamBytes
}
