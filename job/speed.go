package job

import "time"

// Speed is the speed of a job, in items and in bytes of input a second. 0: not known.
type Speed struct{ Items, Bytes float64 }

// Speed returns the average from the job's start to its end, or to now if it has not ended. What
// earlier runs have done does not count; Bytes is 0 if there was any, because their share is not known.
func (r Report) Speed(now time.Time) Speed {
	if r.Ended != nil {
		now = *r.Ended
	}
	done, seconds := r.Done()-r.Resumed, now.Sub(r.Started).Seconds()
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
// known, otherwise by the items planned. It is not ok if neither is known, or nothing was done yet.
func (r Report) TimeLeft(s Speed) (left time.Duration, ok bool) {
	var seconds float64
	switch {
	case r.TotalBytes > 0 && s.Bytes > 0:
		seconds = float64(r.TotalBytes-r.InputBytes) / s.Bytes
	case r.PlanDone && s.Items > 0:
		seconds = float64(r.Planned-r.Done()) / s.Items
	default:
		return 0, false
	}
	return time.Duration(max(0, seconds) * float64(time.Second)), true
}
