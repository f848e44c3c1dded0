// Package backoff says how long to wait before a repetition.
package backoff

import "time"

// Delay is the wait after so many tries: first after one, then doubled with each further try, up
// to limit.
func Delay(first time.Duration, tries int, limit time.Duration) time.Duration {
	d := first
	for i := 1; i < tries && d < limit; i++ {
		d *= 2
	}
	return min(d, limit)
}
