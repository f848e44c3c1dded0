// Package backoff waits before a repetition.
package backoff

import "time"

// Delay returns the wait after so many tries: first after one, then doubled with each further try, up
// to limit.
func Delay(first time.Duration, tries int, limit time.Duration) time.Duration {
	d := first
	for i := 1; i < tries && d < limit; i++ {
		d *= 2
	}
	return min(d, limit)
}

// Wait waits for d. It returns false, and at once, if over is closed.
func Wait(d time.Duration, over <-chan struct{}) bool {
	select {
	case <-over:
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-over:
		return false
	}
}
