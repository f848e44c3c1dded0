package job

import (
	"regexp"
	"strings"
	"time"
)

// Placeholders in the locations of a scheduled job: each run replaces them with the time of its tick,
// in UTC.
const (
	placeholderTime = "{time}" // 20261121T030000Z
	placeholderDate = "{date}" // 2026-11-21
)

var (
	anyPlaceholder = regexp.MustCompile(`\{[A-Za-z0-9_%:-]*\}`)
	scheduledName  = regexp.MustCompile(`^(.*)-([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)$`)
)

// ScheduledName splits the name of a job that a schedule has started, NAME-2026-11-21T03:00:00Z, into
// the schedule's name and the time of its tick. It is not ok for other names.
func ScheduledName(name string) (schedule string, at time.Time, ok bool) {
	found := scheduledName.FindStringSubmatch(name)
	if found == nil {
		return "", time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, found[2])
	return found[1], at, err == nil
}

// Ticked returns the spec of the run that a schedule starts: with that name, and with the placeholders
// of its locations replaced if the name is one that schedules give (see [ScheduledName]).
func (s Spec) Ticked(name string) Spec {
	s.Name = name
	_, at, ok := ScheduledName(name)
	if !ok {
		return s
	}
	fill := strings.NewReplacer(placeholderTime, at.Format("20060102T150405Z"), placeholderDate, at.Format(time.DateOnly)).Replace
	inputs := make([]string, len(s.Input))
	for i, input := range s.Input {
		inputs[i] = fill(input)
	}
	s.Input = inputs
	s.Output, s.Errors, s.Report, s.Store = fill(s.Output), fill(s.Errors), fill(s.Report), fill(s.Store)
	return s
}

// output is a location that a run writes.
type output struct{ field, location string }

func (s Spec) outputs() [4]output {
	return [4]output{{"Output", s.Output}, {"Errors", s.Errors}, {"Report", s.Report}, {"Store", s.Store}}
}

// checkPlaceholders refuses unknown placeholders, which would become a part of a file's name. Inputs
// are not checked: braces in them may belong to a glob.
func (s Spec) checkPlaceholders() error {
	for _, o := range s.outputs() {
		for _, p := range anyPlaceholder.FindAllString(o.location, -1) {
			if p != placeholderTime && p != placeholderDate {
				return fieldError(o.field, "%s: unknown placeholder %s: use %s (such as 20261121T030000Z) or %s (2026-11-21), the time of the tick in UTC",
					o.location, p, placeholderTime, placeholderDate)
			}
		}
	}
	return nil
}

// checkApart refuses outputs that two runs at the same time would both write.
func (s Spec) checkApart() error {
	for _, o := range s.outputs() {
		if o.location != "" && !strings.Contains(o.location, placeholderTime) {
			return fieldError("Overlap", "%s: two runs at the same time would both write %s %s: put %s into it, such as out-%s.jsonl, or choose another overlap",
				OverlapAllow, strings.ToLower(o.field), o.location, placeholderTime, placeholderTime)
		}
	}
	return nil
}
