package predict

import (
	"math"
	"time"

	"github.com/stint-run/stint/job"
)

// Needs are what a job uses of services that are paid for, going by a sample.
type Needs struct {
	Usage job.Usage `json:"usage,omitzero"`
	// Affordable is how many items the job's budget is enough for; 0: for all, or it has none.
	Affordable int64 `json:"affordable,omitempty"`
	// Late says that the job's deadline seems to come before its end, if it is started now.
	Late bool `json:"late,omitempty"`
}

// isLate reports whether a job that takes so many seconds reaches its deadline.
func isLate(spec job.Spec, seconds float64) bool {
	now := time.Now()
	at, err := spec.DeadlineAfter(now)
	return err == nil && !at.IsZero() && at.Sub(now).Seconds() < seconds
}

// needsOf returns what a job of so many items needs.
func needsOf(s Sample, items int64, spec job.Spec) (n Needs) {
	if s.Items == 0 || s.Usage.IsZero() {
		return n
	}
	part := float64(items) / float64(s.Items)
	scaled := func(of int64) int64 { return int64(math.Min(math.Round(float64(of)*part), math.MaxInt64/2)) }
	n.Usage = job.Usage{
		TokensIn: scaled(s.Usage.TokensIn), TokensOut: scaled(s.Usage.TokensOut), TokensCached: scaled(s.Usage.TokensCached),
		Cost: job.Money(scaled(int64(s.Usage.Cost))),
	}
	enough := 1.0
	if spec.MaxCost > 0 && n.Usage.Cost > 0 {
		enough = math.Min(enough, float64(spec.MaxCost)/float64(n.Usage.Cost))
	}
	if spec.MaxTokens > 0 && n.Usage.Tokens() > 0 {
		enough = math.Min(enough, float64(spec.MaxTokens)/float64(n.Usage.Tokens()))
	}
	if enough < 1 {
		n.Affordable = max(1, int64(enough*float64(items)))
	}
	return n
}

// limitedSeconds returns how long a job's limits make it take at least.
func limitedSeconds(spec job.Spec, items, requests int64, u job.Usage) float64 {
	seconds := 0.0
	for _, l := range []struct {
		n    int64
		rate job.Rate
		in   float64 // seconds
	}{{items, spec.JobRate, 1}, {requests, spec.RequestRate, 60}, {u.Tokens(), spec.TokenRate, 60}} {
		if l.rate > 0 {
			const thousandths = 1000
			seconds = math.Max(seconds, float64(l.n)*thousandths/float64(l.rate)*l.in)
		}
	}
	return seconds
}
