package job

import (
	"fmt"
	"strings"
	"time"
)

// Stop asks for a coordinated stop. Every field is optional.
type Stop struct {
	// Reason is told to people and kept in the report.
	Reason string `json:"reason,omitempty"`
	// Error makes the job end as failed with this error.
	Error *Error `json:"error,omitempty"`
	// Grace overrides the job's own: a Go duration such as "30s"; "0" means at once.
	Grace string `json:"grace,omitempty"`
	// IgnoreStragglers leaves work that outlives the grace period out of the job's outcome.
	IgnoreStragglers bool `json:"ignore_stragglers,omitempty"`
}

// validate returns an error where the grace period is none.
func (s Stop) validate() error {
	if s.Grace == "" {
		return nil
	}
	if grace, err := time.ParseDuration(s.Grace); err != nil || grace < 0 {
		return fmt.Errorf("grace %q: give a duration of 0 or more, such as 30s", s.Grace)
	}
	return nil
}

// StopNotice is what a running batch finds in its workflow's memo once a stop has reached it.
type StopNotice struct {
	Deadline time.Time `json:"deadline"` // when the grace period ends
	Reason   string    `json:"reason,omitempty"`
}

// Straggler is a batch that was still running when a stop's grace period, and the time after it in
// which workers end what does not end by itself, were over.
type Straggler struct {
	Batch  string    `json:"batch"`
	Leg    int       `json:"leg"`
	Worker string    `json:"worker,omitempty"` // that had it in hand, where the server could still tell
	Slot   int       `json:"slot"`
	PID    int       `json:"pid,omitempty"` // of the slot's process, or of the worker; 0: not known
	Since  time.Time `json:"since"`         // when the job gave it out
	Noted  time.Time `json:"noted"`         // when it was found still running
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
	return text + fmt.Sprintf(", for %v", s.Noted.Sub(s.Since).Round(time.Second))
}

// Leftovers is the error of a job that stopped with these still running.
func Leftovers(stragglers []Straggler) *Error {
	var names []string
	for _, s := range stragglers[:min(len(stragglers), namedStragglers)] {
		names = append(names, s.String())
	}
	text := strings.Join(names, "; ")
	if n := len(stragglers) - namedStragglers; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return &Error{Type: ErrorLeftovers, Message: "Coordinator stopped with work still running: " + text}
}

// namedStragglers is how many of them an error names.
const namedStragglers = 10
