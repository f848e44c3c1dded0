package job

import "time"

// Sample is what a job was at a moment of its life.
type Sample struct {
	At     time.Time `json:"at"`
	OK     int64     `json:"ok"`
	Failed int64     `json:"failed,omitempty"`
	Reused int64     `json:"reused,omitempty"`
	// P50, P95 and Max are how long the calls before it took, since the sample before, in nanoseconds.
	P50 time.Duration `json:"p50_ns,omitempty"`
	P95 time.Duration `json:"p95_ns,omitempty"`
	Max time.Duration `json:"max_ns,omitempty"`
	// Since the sample before:
	Expiries int64 `json:"expiries,omitempty"`
	Deaths   int64 `json:"deaths,omitempty"`
	Retries  int64 `json:"retries,omitempty"`
}
