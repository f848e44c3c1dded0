package wire

import "time"

// StopNotice is what a running batch finds in its workflow's memo once a stop has reached it.
type StopNotice struct {
	Deadline time.Time `json:"deadline"` // when the grace period ends
	Reason   string    `json:"reason,omitempty"`
}
