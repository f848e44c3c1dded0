package job

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cronTimes is an expression that has been read.
type cronTimes struct {
	zone    string                 // that it sets, or ""
	matched [len(cronFields)][]int // the values that each field matches, in order; none: it gives an interval
}

// parseCron reads an expression as Temporal does (service/worker/scheduler in its server).
func parseCron(expression string) (c cronTimes, err error) {
	if err := c.parse(strings.TrimSpace(expression)); err != nil {
		return c, fmt.Errorf("cron expression %q: %w", expression, err)
	}
	return c, nil
}

var errCronFields = errors.New("expected 5 to 7 fields: " +
	"use minute, hour, day of month, month and day of week, such as '0 3 * * *', or @daily, or @every 90m")

func (c *cronTimes) parse(rest string) error {
	if strings.HasPrefix(rest, "TZ=") || strings.HasPrefix(rest, "CRON_TZ=") {
		var setting string
		setting, rest, _ = strings.Cut(rest, " ")
		_, c.zone, _ = strings.Cut(setting, "=")
		if err := checkZone(c.zone); err != nil {
			return err
		}
	}
	rest, comment, _ := strings.Cut(rest, "#")
	if len(strings.TrimSpace(comment)) > maxCronComment {
		return fmt.Errorf("its comment is longer than %d bytes", maxCronComment)
	}
	rest = strings.TrimSpace(rest)
	if strings.HasPrefix(rest, "@every") {
		if c.zone != "" {
			return errors.New("@every cannot have a time zone")
		}
		return checkEvery(rest)
	}
	fields := strings.Fields(cmp.Or(cronNames[rest], rest))
	switch len(fields) {
	case 5:
		fields = slices.Concat([]string{"0"}, fields, []string{"*"})
	case 6:
		fields = slices.Insert(fields, 0, "0")
	case len(cronFields):
	default:
		return errCronFields
	}
	for i, f := range cronFields {
		if c.matched[i] = f.matches(fields[i]); len(c.matched[i]) == 0 {
			return fmt.Errorf("%s %q: use *, %d to %d, a range such as %d-%d, either with a step such as */2, or a list of these",
				f.name, fields[i], f.min, f.max, f.min, f.max)
		}
	}
	return nil
}

// maxCronComment is Temporal's limit, in bytes.
const maxCronComment = 200

var cronNames = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// checkZone returns an error if there is no such time zone.
func checkZone(zone string) error {
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return fmt.Errorf("unknown time zone %q: use a name such as Europe/Berlin, or UTC", zone)
	}
	return nil
}

var cronDays = regexp.MustCompile(`([0-9.]+)d`)

// checkEvery checks "@every INTERVAL[/PHASE]".
func checkEvery(expression string) error {
	name, text, found := strings.Cut(expression, " ")
	if !found || name != "@every" {
		return errors.New("no interval given: use '@every 90m'")
	}
	text, after, hasPhase := strings.Cut(text, "/")
	interval, err := cronDuration(text)
	if err != nil || interval < time.Second {
		return fmt.Errorf("interval %q: use 1s or more, in units of s, m, h and d, such as 90m or 7d", text)
	}
	if interval%time.Second != 0 {
		return fmt.Errorf("interval %q: use whole seconds, such as 2s: Temporal ticks at none in between", text)
	}
	if !hasPhase || after == "" {
		return nil
	}
	if phase, err := cronDuration(after); err != nil || phase < 0 || phase >= interval {
		return fmt.Errorf("phase %q: use 0s or more, and less than the interval", after)
	} else if phase%time.Second != 0 {
		return fmt.Errorf("phase %q: use whole seconds", after)
	}
	return nil
}

// cronDuration reads a duration in which a day has 24 hours.
func cronDuration(text string) (time.Duration, error) {
	return time.ParseDuration(cronDays.ReplaceAllStringFunc(text, func(days string) string {
		n, err := strconv.ParseFloat(strings.TrimSuffix(days, "d"), 64)
		if err != nil {
			return days // not a duration
		}
		return fmt.Sprintf("%fh", 24*n)
	}))
}

// cronField is one field of an expression.
type cronField struct {
	name     string
	min, max int
	values   []string // names, the first of min
	shortest int      // of a name that is abbreviated
}

var cronFields = [...]cronField{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, shortest: 3, values: []string{
		"january", "february", "march", "april", "may", "june",
		"july", "august", "september", "october", "november", "december",
	}},
	{name: "day of week", max: 7, shortest: 2, values: []string{
		"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday",
	}},
	{name: "year", min: 2000, max: 2100},
}

// matches returns the values that a text matches, in order; none if the field cannot have it.
func (f cronField) matches(text string) []int {
	all := map[int]bool{}
	for part := range strings.SplitSeq(text, ",") {
		part, stepText, stepped := strings.Cut(part, "/")
		step, err := int64(1), error(nil)
		if stepped {
			step, err = strconv.ParseInt(stepText, 10, 32) // Temporal takes larger ones for others
		}
		first, last, isRange := strings.Cut(part, "-")
		from, ok := f.value(first)
		to, okTo := f.max, true
		switch {
		case part == "*":
			from, ok = f.min, true
		case isRange:
			to, okTo = f.value(last)
		case !stepped:
			to = from
		}
		if err != nil || step < 1 || !ok || !okTo || from > to {
			return nil
		}
		for v := from; v <= to; v += int(step) {
			all[v] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// value reads a number or a name. It is not ok if the field cannot have it.
func (f cronField) value(text string) (v int, ok bool) {
	if f.shortest > 0 && len(text) >= f.shortest {
		for i, name := range f.values {
			if strings.HasPrefix(name, strings.ToLower(text)) {
				return f.min + i, true
			}
		}
	}
	v, err := strconv.Atoi(text)
	return v, err == nil && v >= f.min && v <= f.max
}

// Ticks returns the times of a schedule as Temporal takes them: expressions and their time zone. Temporal goes through
// the minutes of a day by the clock of the time zone. When that is put back it leaves out an hour east of Greenwich, so
// expressions for each hour become intervals, which no clock changes.
func (o ScheduleOptions) Ticks() (expressions []string, zone string) {
	zone = o.TimeZone
	for _, expression := range o.Cron {
		c, _ := parseCron(expression) // it is valid
		own := cmp.Or(c.zone, o.TimeZone)
		if hourly := c.hourly(); hourly != nil && changesByHours(own) {
			expressions, zone = append(expressions, hourly...), own
			continue
		}
		expressions = append(expressions, expression)
	}
	return expressions, zone
}

// hourly returns intervals that tick when an expression for each hour of each day does; nil if it is for other times,
// too.
func (c cronTimes) hourly() (intervals []string) {
	seconds, minutes := c.matched[0], c.matched[1]
	for i, f := range cronFields[2:] {
		if len(c.matched[2+i]) <= f.max-f.min {
			return nil
		}
	}
	switch {
	case len(seconds) != 1:
		return nil
	case len(minutes) == 60:
		return []string{fmt.Sprintf("@every 1m/%ds", seconds[0])}
	}
	for _, minute := range minutes {
		intervals = append(intervals, fmt.Sprintf("@every 1h/%ds", 60*minute+seconds[0]))
	}
	return intervals
}

// changesByHours reports whether the clock of a time zone is changed in the course of the year, and is whole hours off
// UTC all the time.
func changesByHours(zone string) bool {
	at, err := time.LoadLocation(zone)
	if err != nil {
		return false
	}
	offsets := map[int]bool{}
	for now, month := time.Now(), 0; month <= 24; month++ {
		_, offset := now.AddDate(0, month, 0).In(at).Zone()
		if offset%3600 != 0 {
			return false
		}
		offsets[offset] = true
	}
	return len(offsets) > 1
}
