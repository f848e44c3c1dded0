package job

import "github.com/stint-run/stint/internal/base/samples"

// Sample is what a job was at a moment of its life: how many items were done by then, and, since the sample before, how
// long calls took and what went wrong.
type Sample = samples.Sample

// WithSamples returns the report as it is shown: with Samples, which are made of Life.
func (r Report) WithSamples() Report {
	if r.Life != nil {
		r.Samples, r.Life = r.Life.Series().Samples(), nil
	}
	return r
}

// SettleLife has the items of Life add up to those of the report: others than legs have counted some of them.
func (r *Report) SettleLife() {
	r.Life = r.Life.Settled(r.Started, samples.Counts{samples.OK: r.OK, samples.Failed: r.Failed, samples.Reused: r.Reused})
}
