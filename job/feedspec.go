package job

import (
	"errors"
	"time"
)

// checkFeed checks the fields of a feed, and refuses those of files.
func (s Spec) checkFeed() error {
	var errs []error
	if len(s.Input) > 0 {
		errs = append(errs, fieldError("Input", "must be empty: a feed has no inputs, its items are put by clients"))
	}
	switch s.Format {
	case "jsonl", "text":
	default:
		errs = append(errs, fieldError("Format", "%q: use jsonl or text for a feed", s.Format))
	}
	if s.Capacity < 1 || s.Capacity > MaxCapacity {
		errs = append(errs, fieldError("Capacity", "%d: use 1 to %d items", s.Capacity, MaxCapacity))
	}
	if s.CapacityBytes < minCapacityBytes || s.CapacityBytes > MaxCapacityBytes {
		errs = append(errs, fieldError("CapacityBytes", "%d: use %d to %d bytes", s.CapacityBytes, minCapacityBytes, MaxCapacityBytes))
	}
	if s.BatchWait != 0 && (s.BatchWait < minBatchWait || s.BatchWait > maxBatchWait) {
		errs = append(errs, fieldError("BatchWait", "%v: use %v to %v, or 0; shorter waits are the client's (FeedOptions.Linger)", s.BatchWait, minBatchWait, maxBatchWait))
	}
	if s.Keep < time.Second || s.Keep > 24*time.Hour {
		errs = append(errs, fieldError("Keep", "%v: use %v to %v", s.Keep, time.Second, 24*time.Hour))
	}
	return errors.Join(errs...)
}

// checkNoFeed refuses what only a feed has.
func (s Spec) checkNoFeed() error {
	var errs []error
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"Capacity", s.Capacity != 0}, {"CapacityBytes", s.CapacityBytes != 0}, {"BatchWait", s.BatchWait != 0}, {"Keep", s.Keep != 0},
	} {
		if f.set {
			errs = append(errs, fieldError(f.field, "is for feeds only: leave it out, or make the job a feed"))
		}
	}
	return errors.Join(errs...)
}
