package predict

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Setup describes the workers that would run a job.
type Setup struct {
	Slots int // of a worker, times the calls that each runs at once
	// Concurrency is how many calls a slot runs at once; 0: one.
	Concurrency int
	Workers     int // like the one that has tried the sample; 0: one
	// Ready is how long the handler took until it was ready.
	Ready time.Duration
	Seed  uint64 // of the resampling
}

// Pacer is a Handler that cuts its calls by how long they take.
type Pacer interface {
	// PacedItems is how many items a call gets if starting one takes so many seconds, and each
	// of its items so many more.
	PacedItems(start, item float64) int
}

// Estimate is a number that is not known exactly.
type Estimate struct {
	Value float64 `json:"value"`
	// Low and High bound it with a probability of 95 %, as far as it depends on which items were
	// drawn and on how the times of calls vary: the bootstrap's percentiles. Nil if too few calls
	// were timed.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
}

// Prediction describes a job, going by a sample. Its batches, legs, events and actions are those at
// the speed that the sample has shown.
type Prediction struct {
	Survey
	Sample Sample `json:"sample"`

	Slots    int      `json:"slots"` // of a worker
	Workers  int      `json:"workers"`
	Parallel int      `json:"parallel"` // calls at once: what slots, workers and window allow
	Seconds  Estimate `json:"seconds"`  // from the job's start to its end

	ItemSeconds  Estimate `json:"item_seconds"`  // of one slot
	StartSeconds float64  `json:"start_seconds"` // of a call, beside its items
	CallItems    int64    `json:"call_items"`    // of a call in the job
	BatchItems   int64    `json:"batch_items"`   // of a batch, on average

	ResultBytes int64 `json:"result_bytes"` // of the output
	Needs
	// MemoryBytes is what a worker takes, with the embedded server and without its programs.
	MemoryBytes int64 `json:"memory_bytes"`
}

// The assumptions of a prediction: round figures of what the benchmarks measure.
const (
	batchSeconds  = 0.010 // a batch, beside its calls
	serverBatches = 300.0 // batches a second that a small server manages
	startSeconds  = 0.5   // start and end of a job
	streamBytes   = 500e6 // bytes a second of input and output: planning, joining
	idleMemory    = 170 << 20
	copiesOfACall = 4 // its lines and its answer, in buffers that have grown
	minTimed      = 8 // calls that were timed, for error bars
	resamples     = 2000
	confidence    = 0.95
	beatPart      = 4 // a batch's first heartbeat comes after this part of its expiry
)

// Predict extrapolates from a sample to the whole job.
func Predict(survey Survey, sample Sample, h calls.Handler, spec job.Spec, setup Setup) Prediction {
	p := Prediction{Survey: survey, Sample: sample, Slots: setup.Slots, Workers: setup.Workers, Parallel: setup.parallel(spec.Window)}
	m := newTimeModel(sample, h)
	speed := m.fit(m.timed)
	p.Batches, p.Legs = survey.cutBy(spec, setup.sizing(speed.each()))
	p.BatchItems = survey.Items / max(1, p.Batches)
	m.most = math.Max(1, math.Min(m.most, float64(p.BatchItems))) // a call is of one batch
	speed = m.fit(m.timed)
	p.StartSeconds, p.CallItems = speed.start, int64(speed.items)
	p.Events, p.Actions = p.cost()
	p.addRests(speed, spec)
	if sample.Items > 0 {
		p.ResultBytes = int64(float64(sample.ResultBytes) / float64(sample.Items) * float64(survey.Items))
	}
	p.MemoryBytes = p.memory(setup)
	p.Needs = needsOf(sample, survey.Items, spec)
	limited := limitedSeconds(spec, survey.Items, survey.Items/max(1, p.CallItems), p.Usage)
	seconds := func(s speedOf) float64 { return p.seconds(s, setup, limited) }
	p.Seconds = m.estimate(setup.Seed, seconds)
	p.Late = isLate(spec, p.Seconds.Value)
	p.ItemSeconds = m.estimate(setup.Seed, speedOf.each)
	return p
}

// parallel returns how many calls run at once with a window; 0: an automatic one, which takes what there is.
func (s Setup) parallel(window int) int {
	all := s.Slots * s.Workers
	if window > 0 {
		all = min(all, window*max(1, s.Concurrency))
	}
	return max(1, all)
}

// sizing returns what a job knows if a call takes so many seconds for each item.
func (s Setup) sizing(each float64) wire.Sizing {
	calls := max(1, s.Concurrency)
	return wire.Sizing{
		Rate:  int64(math.Min(1000*float64(calls)/math.Max(each, 1e-9), quickRate)),
		Slots: s.Slots / calls, Concurrency: calls, // as the first page knows them
	}
}

// seconds returns how long the job takes with this speed, if its limits allow its work in so many seconds.
func (p *Prediction) seconds(s speedOf, setup Setup, limited float64) float64 {
	if p.Items == 0 {
		return startSeconds
	}
	perBatch := s.each()*float64(p.Items)/float64(p.Batches) + batchSeconds
	work := math.Max(p.rounds(p.Parallel)*perBatch, float64(p.Batches)/serverBatches)
	if s := p.Sample; s.SlowDowns > 0 { // the whole job gets through no faster than the sample has, with its waits
		work = math.Max(work, s.Took.Seconds()*float64(p.Items)/float64(max(1, s.Items)))
	}
	work = math.Max(work, limited)
	return startSeconds + setup.Ready.Seconds() + work + float64(p.Bytes+p.ResultBytes)/streamBytes
}

// addRests adds the extra cost of long batches: heartbeats, and executions of the rests that they return.
func (p *Prediction) addRests(s speedOf, spec job.Spec) {
	if p.Batches == 0 {
		return
	}
	took := s.each() * float64(p.Items) / float64(p.Batches)
	slice, executions := time.Minute.Seconds(), int64(1)
	for ran := slice; ran < took && slice < time.Hour.Seconds(); executions++ {
		slice *= 2
		ran += slice
	}
	p.Events += (executions - 1) * p.Batches * batchEventsTenths / 10
	beats := int64(0)
	if first := spec.Expiry.Seconds() / beatPart; took > first {
		const throttled = 0.8 // of the expiry
		beats = 1 + int64((took-first)/(throttled*spec.Expiry.Seconds()))
	}
	p.Actions += p.Batches * (executions - 1 + beats)
}

// memory returns the memory of a worker: its base, the parts that wait to be joined, and the calls in hand.
func (p *Prediction) memory(setup Setup) int64 {
	n := max(1, int64(p.Sample.Items))
	call := p.CallItems * (p.Sample.Bytes + p.Sample.ResultBytes) / n
	return idleMemory + min(p.ResultBytes, int64(outputs.MaxHeld)) + copiesOfACall*call*int64(min(setup.Slots, p.Parallel))
}

// cutBy counts the batches, and the legs, that a job with automatic batches has if that is what it knows of the
// handler's speed and of the pool: as Plan cuts them, but with the mean size of each source's items.
func (s *Survey) cutBy(spec job.Spec, known wire.Sizing) (batches, legs int64) {
	left, first := s.Items, known
	first.Rate = 0
	few, page := int64(inputs.FirstFew(first)), int64(inputs.FirstPage(spec, first, wire.FirstPage))
	for _, source := range s.sources {
		rest := source.items
		mean := max(1, source.bytes/max(1, source.items))
		for rest > 0 {
			sizing := known
			if batches < few || batches < page && !speedShown(spec, first, left, batches) {
				sizing = first
			}
			items, bytes := inputs.BatchSize(spec, sizing, int(min(batches, page)), left)
			size := min(rest, max(1, min(items, bytes/mean)))
			// Far from the end they stay as they are.
			n := max(1, (rest-2*inputs.SpreadOf(known)*size)/size)
			if sizing.Rate == 0 {
				n = 1
			}
			batches += n
			rest -= n * size
			left -= n * size
		}
	}
	switch after := batches - page; {
	case batches == 0:
		return 0, 0
	case after <= 0, page <= wire.InsideBatches && after <= wire.InsideBatches:
		return batches, 1
	default:
		page := int64(pipeline.Compile(spec.Stages).Page(spec.BatchItems))
		return batches, 1 + (after+page-1)/page
	}
}

// speedShown reports whether the first page ends with the few batches that show the handler's speed.
func speedShown(spec job.Spec, first wire.Sizing, left, batches int64) bool {
	items, _ := inputs.BatchSize(spec, first, int(batches), left)
	in := wire.PlanInput{Spec: spec, Sizing: first, Batches: inputs.FirstPage(spec, first, wire.FirstPage)}
	return inputs.ShowsSpeed(in, inputs.FirstFew(first), items, left)
}

// timeModel estimates how long a job's calls take from the times of a sample's calls.
type timeModel struct {
	timed  []timing // those of single items first
	single int      // of them
	failed float64  // seconds in calls that failed, for each item
	most   float64  // items of a call
	pacer  Pacer    // nil: none
}

func newTimeModel(s Sample, h calls.Handler) *timeModel {
	size := h.CallSize()
	m := &timeModel{timed: slices.Clone(s.timed), most: float64(max(1, size.Items))}
	slices.SortStableFunc(m.timed, func(a, b timing) int { return cmp.Compare(a.items, b.items) })
	for m.single < len(m.timed) && m.timed[m.single].items == 1 {
		m.single++
	}
	m.pacer, _ = h.(Pacer)
	if m.pacer != nil {
		m.most = math.MaxInt32
	}
	if s.Items > 0 {
		m.failed = s.failed.Seconds() / float64(s.Items)
		m.most = math.Max(1, math.Min(m.most, float64(size.Bytes)/math.Max(1, float64(s.Bytes)/float64(s.Items))))
	}
	return m
}

// speedOf is how long calls take, in seconds.
type speedOf struct {
	start, item float64 // of a call by itself; of an item in it
	items       float64 // of a call in the job
	failed      float64 // of calls that fail, for each item
}

// each returns the time that an item takes in total.
func (s speedOf) each() float64 { return s.item + s.start/math.Max(1, s.items) + s.failed }

// fit finds the start and the item that fit the times of calls best: start + items · item, by least
// squares, neither below 0.
func (m *timeModel) fit(timed []timing) speedOf {
	start, item := leastSquares(timed)
	s := speedOf{start: start, item: item, items: m.most, failed: m.failed}
	if m.pacer != nil {
		s.items = math.Min(m.most, float64(m.pacer.PacedItems(start, item)))
	}
	return s
}

func leastSquares(timed []timing) (start, item float64) {
	var n, x, y, xx, xy float64
	for _, t := range timed {
		items, took := float64(t.items), t.took.Seconds()
		n, x, y, xx, xy = n+1, x+items, y+took, xx+items*items, xy+items*took
	}
	if n == 0 {
		return 0, 0
	}
	spread := n*xx - x*x
	if spread <= 0 {
		return 0, y / x // calls of one size do not show how much the start takes
	}
	item = (n*xy - x*y) / spread
	start = (y - item*x) / n
	switch {
	case item < 0:
		return y / n, 0
	case start < 0:
		return 0, xy / xx
	}
	return start, item
}

// estimate returns a number at the speed that the sample has shown, and its bounds if calls are drawn
// from the sample's again and again: from those of single items, and from the others, as many as
// there are.
func (m *timeModel) estimate(seed uint64, number func(speedOf) float64) Estimate {
	e := Estimate{Value: number(m.fit(m.timed))}
	if len(m.timed) < minTimed {
		return e
	}
	random := rand.New(rand.NewPCG(seed, uint64(len(m.timed))))
	drawn := make([]timing, len(m.timed))
	numbers := make([]float64, resamples)
	for i := range numbers {
		for k := range drawn {
			like := m.timed[:m.single]
			if k >= m.single {
				like = m.timed[m.single:]
			}
			drawn[k] = like[random.IntN(len(like))]
		}
		numbers[i] = number(m.fit(drawn))
	}
	slices.Sort(numbers)
	tail := int(resamples * (1 - confidence) / 2)
	low, high := math.Min(numbers[tail], e.Value), math.Max(numbers[resamples-1-tail], e.Value)
	e.Low, e.High = &low, &high
	return e
}
