package starter

import (
	"encoding/json"
	"time"

	"github.com/stint-run/stint/job"
)

// tick is one line of --json: a report, when it was made, and what follows from several of them.
type tick struct {
	Time time.Time `json:"time"`
	// AgeSeconds is how old the numbers are; left out if all of the job's workflows have answered.
	AgeSeconds float64 `json:"age_seconds,omitempty"`
	// ItemsDone are items with an outcome. ItemsPerSecond is their number in a second, and BytesPerSecond that of their input, in the last
	// seconds; both are 0 if nothing was done then.
	ItemsDone      int64   `json:"items_done"`
	ItemsPerSecond float64 `json:"items_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Percent, of the input, and SecondsLeft are left out if they are not known.
	Percent     *int64   `json:"percent,omitempty"`
	SecondsLeft *float64 `json:"seconds_left,omitempty"`
	job.Report
}

// tick prints a report as JSON.
func (p *progress) tick(r job.Report, now time.Time) {
	speed := p.speed()
	t := tick{Time: now.UTC(), ItemsDone: r.Done(), ItemsPerSecond: max(0, speed.Items), BytesPerSecond: max(0, speed.Bytes), Report: r}
	if !r.AsOf.IsZero() {
		t.AgeSeconds = now.Sub(r.AsOf).Seconds()
	}
	if percent, ok := r.Percent(); ok {
		t.Percent = &percent
	}
	if left, ok := r.TimeLeft(speed); ok && !r.State.Final() {
		seconds := left.Seconds()
		t.SecondsLeft = &seconds
	}
	_ = json.NewEncoder(p.w).Encode(t) // nobody could receive the error
}
