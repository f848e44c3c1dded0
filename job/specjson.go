package job

import (
	"encoding/json"
	"fmt"
	"time"
)

// In JSON, which people read in the web UI and other clients write, durations have Go's form ("1m30s"),
// and [None] is "none".

// plainSpec is a Spec without its methods.
type plainSpec Spec

// jsonSpec replaces the spec's durations by its own.
type jsonSpec struct {
	*plainSpec
	Expiry       duration `json:"expiry,omitzero"`
	CallTimeout  duration `json:"call_timeout,omitzero"`
	BatchTimeout duration `json:"batch_timeout,omitzero"`
	Backoff      duration `json:"backoff,omitzero"`
	Grace        duration `json:"grace,omitzero"`
	BatchWait    duration `json:"batch_wait,omitzero"`
	Keep         duration `json:"keep,omitzero"`
	Every        duration `json:"every,omitzero"`
}

// MarshalJSON writes durations as text.
func (s Spec) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonSpec{
		plainSpec: (*plainSpec)(&s),
		Expiry:    duration(s.Expiry), CallTimeout: duration(s.CallTimeout), BatchTimeout: duration(s.BatchTimeout),
		Backoff: duration(s.Backoff), Grace: duration(s.Grace),
		BatchWait: duration(s.BatchWait), Keep: duration(s.Keep), Every: duration(s.Every),
	})
}

// UnmarshalJSON reads durations as text.
func (s *Spec) UnmarshalJSON(data []byte) error {
	in := jsonSpec{plainSpec: (*plainSpec)(s)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	s.Expiry, s.CallTimeout, s.BatchTimeout = time.Duration(in.Expiry), time.Duration(in.CallTimeout), time.Duration(in.BatchTimeout)
	s.Backoff, s.Grace = time.Duration(in.Backoff), time.Duration(in.Grace)
	s.BatchWait, s.Keep, s.Every = time.Duration(in.BatchWait), time.Duration(in.Keep), time.Duration(in.Every)
	return nil
}

type duration time.Duration

const noneText = "none"

func (d duration) MarshalText() ([]byte, error) {
	if d == None {
		return []byte(noneText), nil
	}
	return []byte(time.Duration(d).String()), nil
}

func (d *duration) UnmarshalText(text []byte) error {
	if string(text) == noneText {
		*d = None
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("invalid duration %q: use a form such as 1m30s: %w", text, err)
	}
	*d = duration(parsed)
	return nil
}
