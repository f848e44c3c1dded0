package job

import (
	"cmp"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/samples"
)

// Sample is what a job was at a moment of its life.
type Sample struct {
	At     time.Time `json:"at"`
	OK     int64     `json:"ok"`               // items with a result by then
	Failed int64     `json:"failed,omitempty"` // items with an error by then
	Reused int64     `json:"reused,omitempty"` // of those that are OK, those with the result of an earlier run
	// P50, P95 and Max are how long the calls took that were answered since the sample before, in nanoseconds; 0: none
	// was.
	P50 time.Duration `json:"p50_ns,omitempty"`
	P95 time.Duration `json:"p95_ns,omitempty"`
	Max time.Duration `json:"max_ns,omitempty"`
	// Since the sample before:
	Expiries int64 `json:"expiries,omitempty"` // timers that expired
	Deaths   int64 `json:"deaths,omitempty"`   // processes that ended in the middle of a call
	Retries  int64 `json:"retries,omitempty"`  // calls and batches that were retried

	calls *calltimes.Timer // what P50, P95 and Max are of; nil: there are none, or they are not known
}

// Done returns the number of items with an outcome by then.
func (s Sample) Done() int64 { return s.OK + s.Failed }

// newSample makes a sample of a point.
func newSample(p samples.Point) Sample {
	s := Sample{
		At: p.At, OK: p.N[samples.OK], Failed: p.N[samples.Failed], Reused: p.N[samples.Reused],
		Expiries: p.N[samples.Expiries], Deaths: p.N[samples.Deaths], Retries: p.N[samples.Retries], calls: p.Calls,
	}
	if p.Calls != nil {
		s.P50, s.P95, s.Max = p.Calls.Percentile(50), p.Calls.Percentile(95), p.Calls.Longest()
	}
	return s
}

func (s Sample) point() samples.Point {
	return samples.Point{At: s.At, Calls: s.calls, N: samples.Counts{
		samples.OK: s.OK, samples.Failed: s.Failed, samples.Reused: s.Reused,
		samples.Expiries: s.Expiries, samples.Deaths: s.Deaths, samples.Retries: s.Retries,
	}}
}

// WithSamples returns the report as it is shown: with Samples, which are made of Life.
func (r Report) WithSamples() Report {
	if r.Life == nil {
		return r
	}
	r.Samples = nil
	for _, p := range r.Life.Series().Points() {
		r.Samples = append(r.Samples, newSample(p))
	}
	r.Life = nil
	return r
}

// WithLife returns the report as it travels: with Life, which is made of Samples. Of samples that were read from JSON it
// does not have how long calls took.
func (r Report) WithLife() Report {
	if r.Samples == nil {
		return r
	}
	var points []samples.Point
	for _, s := range r.Samples {
		points = append(points, s.point())
	}
	r.Samples, r.Life = nil, samples.Of(points).Pack()
	return r
}

// Rates returns how many items were done a second in each of n equal parts, 1 or more, of the time that the samples
// cover; nil, if they cover none.
func (r Report) Rates(n int) []float64 {
	all := r.Samples
	if len(all) < 2 || !all[0].At.Before(all[len(all)-1].At) {
		return nil
	}
	begin, part := all[0].At, all[len(all)-1].At.Sub(all[0].At).Seconds()/float64(n)
	rates := make([]float64, n)
	for i, s := range all[1:] {
		before := all[i]
		from, to := before.At.Sub(begin).Seconds()/part, s.At.Sub(begin).Seconds()/part
		done := float64(s.Done() - before.Done())
		if to <= from { // all at once
			rates[min(n-1, int(from))] += done / part
			continue
		}
		done /= to - from // in a part's time
		for p := max(0, min(n-1, int(from))); p < n && float64(p) < to; p++ {
			rates[p] += done * (min(to, float64(p+1)) - max(from, float64(p))) / part
		}
	}
	return rates
}

// SettleLife has the items of Life add up to those of the report: not all of them are counted by legs.
func (r *Report) SettleLife() {
	r.Life = r.Life.Settled(r.Started, samples.Counts{samples.OK: r.OK, samples.Failed: r.Failed, samples.Reused: r.Reused})
}

// SlowBatch is an execution of a batch that took long.
type SlowBatch struct {
	Number int64         `json:"batch"` // of the batch, from 1
	First  int64         `json:"first"` // ordinal of the first item that was done
	Items  int64         `json:"items"` // that were done
	Stage  string        `json:"stage,omitempty"`
	Worker string        `json:"worker,omitempty"`
	Took   time.Duration `json:"took_ns"` // in nanoseconds
	Ended  time.Time     `json:"ended"`
}

// NoteSlow adds batches to the slowest, and keeps those that took longest.
func (o *Outcomes) NoteSlow(batches ...SlowBatch) {
	n := len(o.Slowest)
	if len(batches) == 0 || n == limits.MaxSlowest && len(batches) == 1 && batches[0].Took <= o.Slowest[n-1].Took {
		return
	}
	all := slices.Concat(o.Slowest, batches)
	slices.SortFunc(all, func(a, b SlowBatch) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), a.Ended.Compare(b.Ended), cmp.Compare(a.Number, b.Number))
	})
	o.Slowest = all[:min(len(all), limits.MaxSlowest)]
}
