package starter

import (
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/job"
)

// A host that does not answer, or a network that is not there, shows as an outage only after the first tries have
// ended, which may take a minute.

const (
	// plannedWithin is after which time it is said that nothing is planned yet.
	plannedWithin = 3 * time.Second
	// namedPlaces is how many places are named.
	namedPlaces = 3
)

// lookedAt says what a job with this spec looks at before it has planned its first item.
func lookedAt(spec job.Spec) string {
	if slices.Contains(spec.Inputs(), job.StandardInput) {
		return "nothing has come on the standard input yet"
	}
	places := slices.Concat(spec.Inputs(), []string{spec.Output, spec.Errors, spec.Dropped, spec.Report})
	local := func(place string) bool { return !strings.Contains(place, "://") }
	if slices.ContainsFunc(places, func(place string) bool { return place != "" && !local(place) }) {
		places = slices.DeleteFunc(places, local) // it is not files that are waited for
	} else {
		places = spec.Inputs()
	}
	names := slices.Clone(places[:min(len(places), namedPlaces)])
	if len(places) > namedPlaces {
		names = append(names, "…")
	}
	return "nothing is planned yet: still looking at " + strings.Join(names, ", ")
}

// waits says after a while that nothing is planned yet, and what is looked at.
func (p *progress) waits(r job.Report, now time.Time) {
	if p.lookedAt == "" || p.json || r.State != job.Running || r.Planned > 0 || r.PlanDone || r.Outage != nil {
		return
	}
	if now.Sub(r.Started) > plannedWithin {
		p.say(p.lookedAt)
	}
}
