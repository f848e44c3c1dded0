package job

import (
	"fmt"
	"time"
)

// Stop describes a request for a coordinated stop. All fields may be left zero.
type Stop struct {
	// Reason is shown to people and kept in the report.
	Reason string `json:"reason,omitempty"`
	// Error makes the job fail with this error, unless [Spec].CleanStop lists its type.
	Error *Error `json:"error,omitempty"`
	// Grace replaces the job's own: a Go duration of 0 or more, such as "30s"; "0": at once.
	Grace string `json:"grace,omitempty"`
	// IgnoreStragglers: work that is still running after the grace period does not change the job's
	// outcome.
	IgnoreStragglers bool `json:"ignore_stragglers,omitempty"`
}

// Validate returns an error if the grace period is invalid.
func (s Stop) Validate() error {
	if s.Grace == "" {
		return nil
	}
	if grace, err := time.ParseDuration(s.Grace); err != nil || grace < 0 {
		return fmt.Errorf("invalid grace %q: use a duration of 0 or more, such as 30s", s.Grace)
	}
	return nil
}

// Straggler is a batch that was still running after a stop's grace period and the time after it in
// which workers end calls by force.
type Straggler struct {
	Batch  string    `json:"batch"`
	Leg    int       `json:"leg"`
	Worker string    `json:"worker,omitempty"` // that ran it; empty: not known
	Slot   int       `json:"slot"`
	PID    int       `json:"pid,omitempty"`  // of the slot's process, or of the worker; 0: not known
	Since  time.Time `json:"since"`          // when the job dispatched it
	Noted  time.Time `json:"noted,omitzero"` // when it was found still running
	Why    string    `json:"why,omitempty"`  // it runs on; empty: that is not known
}

// ForcedEnd is a process that a stop has ended by signals, because its call had not ended within the grace.
// The items in hand have no outcome: they are run when the job is resumed.
type ForcedEnd struct {
	Batch  string `json:"batch"`
	Worker string `json:"worker"`
	Slot   int    `json:"slot"`
	PID    int    `json:"pid"`
	Signal string `json:"signal"` // the last one: "TERM" or "KILL"
}

// String describes it in a line.
func (f ForcedEnd) String() string {
	return fmt.Sprintf("%s on worker %s, slot %d, pid %d, by %s", f.Batch, f.Worker, f.Slot, f.PID, f.Signal)
}

// String names the straggler, where it runs and for how long it had been running when it was noted.
func (s Straggler) String() string {
	text := s.Batch
	if s.Worker != "" {
		text += fmt.Sprintf(" on worker %s, slot %d", s.Worker, s.Slot)
	}
	if s.PID != 0 {
		text += fmt.Sprintf(", pid %d", s.PID)
	}
	if s.Noted.IsZero() {
		return text + ", since " + s.Since.UTC().Format(time.TimeOnly)
	}
	text += fmt.Sprintf(", for %v", s.Noted.Sub(s.Since).Round(time.Second))
	if s.Why != "" {
		text += " (" + s.Why + ")"
	}
	return text
}
