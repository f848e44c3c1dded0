package job

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
)

// Rate is a limit in thousandths of an item a second (workflows compute with integers). 0: no limit. People write it as
// items a second ("250", "0.5"), or in another unit ("250/s", "90/m", "1000/h"); in JSON it is a number of items a
// second, or such a text.
type Rate int64

// Set reads a rate as people write it; "0" and "none" are no limit. After an error the rate is 0.
func (r *Rate) Set(text string) error {
	*r = 0
	bad := fmt.Errorf("rate %q: write items a second as 250 or 0.5, or with a unit as 250/s, 90/m, 1000/h; 0 for no limit", text)
	if text == noneText {
		return nil
	}
	number, unit, _ := strings.Cut(text, "/")
	seconds, ok := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || strings.HasSuffix(text, "/") || !(value >= 0) {
		return bad
	}
	thousandths := value / seconds * 1000
	switch {
	case value == 0:
		return nil
	case thousandths > limits.MaxRate || thousandths < 0.5:
		return fmt.Errorf("rate %q: use 0.001 to %d items a second", text, limits.MaxRate/1000)
	}
	*r = Rate(float64(thousandths) + 0.5)
	return nil
}

// SetPerMinute reads a rate that is one a minute: "500", or with another unit as [Rate.Set] does.
func (r *Rate) SetPerMinute(text string) error {
	*r = 0
	if text == noneText {
		return nil
	}
	number, unit, given := strings.Cut(text, "/")
	minutes, ok := map[string]float64{"": 1, "m": 1, "s": 1. / 60, "h": 60}[unit]
	value, err := strconv.ParseFloat(number, 64)
	thousandths := math.Floor(value/minutes*1000 + 1e-6) // a limit is not exceeded
	switch {
	case err != nil || !ok || given && unit == "" || !(value >= 0):
		return fmt.Errorf("rate %q: write a number a minute as 500, or with a unit as 10/s, 1000/h; 0 for no limit", text)
	case value == 0:
		return nil
	case thousandths > limits.MaxRate || thousandths < 1:
		return fmt.Errorf("rate %q: use 0.001 to %d a minute", text, limits.MaxRate/1000)
	}
	*r = Rate(thousandths)
	return nil
}

// String returns the rate in items a second, or "none".
func (r Rate) String() string {
	if r == 0 {
		return noneText
	}
	s := fmt.Sprintf("%d.%03d", r/1000, r%1000)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// MarshalJSON writes the rate as a number of items a second.
func (r Rate) MarshalJSON() ([]byte, error) {
	if r == 0 {
		return []byte("0"), nil
	}
	return []byte(r.String()), nil
}

// UnmarshalJSON reads a number of items a second, or a text as [Rate.Set] does.
func (r *Rate) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	return r.Set(text)
}

// Speed is the speed of a job, in items and in bytes of input a second. 0: not known.
type Speed struct{ Items, Bytes float64 }

// paused returns how long the run has been paused by now.
func (r Report) paused(now time.Time) time.Duration {
	if r.PausedSince == nil {
		return r.PausedFor
	}
	return r.PausedFor + max(0, now.Sub(*r.PausedSince))
}

// Speed returns the average from the job's start to its end, or to now if it has not ended, without its pauses. It leaves
// out what earlier runs have done; Bytes is 0 if there were any, because their share is not known.
func (r Report) Speed(now time.Time) Speed {
	if r.Ended != nil {
		now = *r.Ended
	}
	done, seconds := r.Done()-r.Resumed, (now.Sub(r.Started) - r.paused(now)).Seconds()
	if done <= 0 || seconds <= 0 {
		return Speed{}
	}
	s := Speed{Items: float64(done) / seconds}
	if r.Resumed == 0 {
		s.Bytes = float64(r.InputBytes) / seconds
	}
	return s
}

// SpeedSince returns the average between an earlier report of the same run, made at began, and this
// one, made at now.
func (r Report) SpeedSince(earlier Report, began, now time.Time) Speed {
	seconds := now.Sub(began).Seconds()
	if seconds <= 0 {
		return Speed{}
	}
	return Speed{
		Items: float64((r.Done()-r.Resumed)-(earlier.Done()-earlier.Resumed)) / seconds,
		Bytes: float64(r.InputBytes-earlier.InputBytes) / seconds,
	}
}

// TimeLeft estimates the time to the job's end at that speed: by bytes if the size of the input is
// known, otherwise by the items planned. It is not ok if neither is known, nothing was done yet, or the job is paused.
func (r Report) TimeLeft(s Speed) (left time.Duration, ok bool) {
	var seconds float64
	switch {
	case r.PausedSince != nil:
		return 0, false
	case r.TotalBytes > 0 && s.Bytes > 0:
		seconds = float64(r.TotalBytes-r.InputBytes) / s.Bytes
	case r.PlanDone && s.Items > 0:
		seconds = float64(r.Planned-r.Done()) / s.Items
	default:
		return 0, false
	}
	return time.Duration(max(0, seconds) * float64(time.Second)), true
}

// Percent returns how much of the job is done: by bytes if the size of the input is known, otherwise by items. It is
// not ok if neither is known.
func (r Report) Percent() (percent int64, ok bool) {
	return percentOf(r.Done(), r.Planned, r.PlanDone, r.InputBytes, r.TotalBytes)
}

// Percent returns how much of the job was done at that time, as of a [Report].
func (c Counted) Percent() (percent int64, ok bool) {
	return percentOf(c.Done(), c.Planned, c.PlanDone, c.Bytes, c.TotalBytes)
}

func percentOf(done, planned int64, all bool, bytes, total int64) (percent int64, ok bool) {
	switch {
	case total > 0:
		return min(100, 100*bytes/total), true
	case all && planned > 0:
		return min(100, 100*done/planned), true
	}
	return 0, false
}

// In JSON, which people read in the web UI and other clients write, durations have Go's form ("1m30s"),
// and [NoLimit] is "none".

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
}

// MarshalJSON writes durations as text.
func (s Spec) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonSpec{
		plainSpec: (*plainSpec)(&s),
		Expiry:    duration(s.Expiry), CallTimeout: duration(s.CallTimeout), BatchTimeout: duration(s.BatchTimeout),
		Backoff: duration(s.Backoff), Grace: duration(s.Grace),
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
	return nil
}

type duration time.Duration

const noneText = "none"

func (d duration) MarshalText() ([]byte, error) {
	if time.Duration(d) == NoLimit {
		return []byte(noneText), nil
	}
	return []byte(time.Duration(d).String()), nil
}

func (d *duration) UnmarshalText(text []byte) error {
	if string(text) == noneText {
		*d = duration(NoLimit)
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("invalid duration %q: use a form such as 1m30s: %w", text, err)
	}
	*d = duration(parsed)
	return nil
}
