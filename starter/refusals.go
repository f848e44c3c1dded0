package starter

import (
	"time"

	"github.com/stint-run/stint/job"
)

// A handler that asks to slow down fails nothing, so a job whose every call is refused would go on in silence for ever.

// refusedFor is for how long nothing must have succeeded before that is said.
const refusedFor = time.Minute

const onlyRefusals = "nothing has succeeded for more than a minute, while calls end with a request to slow down (of a filter: exit status 75): " +
	"see what the service answers, or whether the handler means something else by it; the job goes on trying until it is stopped"

// refusals watches whether a job's calls do anything but ask to slow down.
type refusals struct {
	since     time.Time // when the last item was done, as far as it is known
	done      int64
	slowDowns int64 // counted then
}

// see takes a job's report, and reports whether onlyRefusals holds.
func (f *refusals) see(r job.Report, now time.Time) bool {
	fresh := r.Done() - r.Resumed
	switch {
	case f.since.IsZero() && fresh == 0:
		f.since = r.SlowedSince // before, it may have waited for a worker
		if f.since.IsZero() {
			return false
		}
	case f.since.IsZero() || fresh != f.done || r.SlowDowns == f.slowDowns: // or nothing has been refused since
		f.since, f.done, f.slowDowns = now, fresh, r.SlowDowns
	}
	return r.State == job.Running && r.Outage == nil && r.SlowDowns-f.slowDowns > 1 && now.Sub(f.since) > refusedFor
}
