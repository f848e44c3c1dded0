package calls

import "github.com/stint-run/stint/job"

func (c *Caller) countFault(fault *Fault) {
	if fault != nil && fault.Summed {
		c.Summed++
	}
	switch {
	case fault == nil || fault.Counted:
	case fault.Kind == job.KindCrash:
		c.Crashes++
	case fault.Kind == job.KindExpired:
		c.Expiries++
	}
}

// countFailed returns how many items have failed, and counts those that had their own timer and let it expire.
func (c *Caller) countFailed(answered []Span) (failed int) {
	for _, o := range answered {
		if o.Fault == nil || o.Later {
			continue
		}
		failed++
		if o.Fault.Kind == job.KindExpired {
			c.Expiries++
		}
	}
	return failed
}
