package job

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Placeholders that a scheduled job's locations may have. Each run puts the time of its tick there,
// in UTC.
const (
	placeholderTime = "{time}" // 20261121T030000Z
	placeholderDate = "{date}" // 2026-11-21
)

var (
	anyPlaceholder = regexp.MustCompile(`\{[A-Za-z0-9_%:-]*\}`)
	scheduledName  = regexp.MustCompile(`^(.*)-([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)$`)
)

// ScheduledName splits the name of a job that a schedule has started, NAME-2026-11-21T03:00:00Z,
// into the schedule's name and the time of its tick; ok is false for other names.
func ScheduledName(name string) (schedule string, at time.Time, ok bool) {
	found := scheduledName.FindStringSubmatch(name)
	if found == nil {
		return "", time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, found[2])
	return found[1], at, err == nil
}

// Ticked returns the spec of the run that a schedule starts under a name: with that name, and with
// the placeholders of its locations replaced. A name that is not a schedule's leaves them as they are.
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

// outputs are the locations that a run writes, by what they are called.
func (s Spec) outputs() [4][2]string {
	return [4][2]string{{"output", s.Output}, {"errors", s.Errors}, {"report", s.Report}, {"store", s.Store}}
}

// checkPlaceholders refuses what looks like a placeholder and is none, which would become a part of
// a file's name. Inputs are not looked at: braces in them may be a glob's.
func (s Spec) checkPlaceholders() error {
	for _, o := range s.outputs() {
		for _, p := range anyPlaceholder.FindAllString(o[1], -1) {
			if p != placeholderTime && p != placeholderDate {
				return fmt.Errorf("%s %s: %s is no placeholder: there are %s (such as 20261121T030000Z) and %s (2026-11-21), the time of the tick in UTC",
					o[0], o[1], p, placeholderTime, placeholderDate)
			}
		}
	}
	return nil
}

// checkApart refuses outputs that two runs at the same time would both write.
func (s Spec) checkApart() error {
	for _, o := range s.outputs() {
		if o[1] != "" && !strings.Contains(o[1], placeholderTime) {
			return fmt.Errorf("overlap %s: two runs at the same time would both write %s %s: put %s into it, such as out-%s.jsonl, or choose another overlap",
				OverlapAllow, o[0], o[1], placeholderTime, placeholderTime)
		}
	}
	return nil
}
