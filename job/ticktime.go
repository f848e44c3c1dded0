package job

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A placeholder in a location of a scheduled job stands for the time of the run's tick, in UTC:
//
//	{date}  {time}            2026-11-21  20261121T030000Z
//	{date-1}  {time+36h}      days or hours before or after it
//	{date:2006/01}            in a layout of package time
//	{date-1:2006/01/02}       both
//
// A layout has no comma: braces with one are a glob's.
const (
	placeholderTime = "{time}"
	placeholderDate = "{date}"
	layoutTime      = "20060102T150405Z"
)

var (
	// ours finds what is, or was meant as, a placeholder for a time.
	ours       = regexp.MustCompile(`\{(?:date|time)\b[^{},]*\}`)
	unclosed   = regexp.MustCompile(`\{(?:date|time)\b[^{},]*$`)
	withComma  = regexp.MustCompile(`\{(?:date|time)\b[^{}]*,[^{}]*\}`)
	parts      = regexp.MustCompile(`^\{(date|time)([+-]\d{1,4}[dh]?)?(?::([^{},]+))?\}$`)
	layoutText = regexp.MustCompile(`^[A-Za-z0-9_ .=:~+/\\-]+$`)
	// otherLetters finds the letters of other languages' layouts: YYYY-MM-DD.
	otherLetters = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:yy|mm|dd|hh|ss)+(?:[^a-z]|$)`)
)

// tickTime is what a placeholder stands for.
type tickTime struct {
	offset time.Duration // from the tick
	layout string
}

// parseTickTime reads a placeholder.
func parseTickTime(placeholder string) (tickTime, error) {
	found := parts.FindStringSubmatch(placeholder)
	if found == nil {
		return tickTime{}, fmt.Errorf("invalid placeholder %s: use %s or %s, then an offset of up to 9999 days or hours, then a layout, such as {date-1}, {time-6h}, {date:2006/01} or {date-1:2006/01/02}",
			placeholder, placeholderDate, placeholderTime)
	}
	t := tickTime{layout: layoutTime}
	if found[1] == "date" {
		t.layout = time.DateOnly
	}
	if found[2] != "" {
		t.offset = parseOffset(found[2])
	}
	if found[3] != "" {
		t.layout = found[3]
		if why := badLayout(found[1], t.layout); why != "" {
			return tickTime{}, fmt.Errorf("layout of placeholder %s: %s: write the time Mon Jan 2 15:04:05 2006 as it should look, such as {date:2006/01/02} or {time:2006-01-02T15}", placeholder, why)
		}
	}
	return t, nil
}

// parseOffset reads an offset of days, or of hours.
func parseOffset(offset string) time.Duration {
	unit := 24 * time.Hour // a day in UTC
	if strings.HasSuffix(offset, "h") {
		unit = time.Hour
	}
	n, _ := strconv.Atoi(strings.TrimRight(offset, "dh")) // at most four digits
	return time.Duration(n) * unit
}

// badLayout returns what is wrong with a layout of a date or a time; empty: nothing.
func badLayout(kind, layout string) string {
	switch {
	case !layoutText.MatchString(layout):
		return "use letters, digits, spaces and _ . = : ~ + - /"
	case otherLetters.MatchString(layout):
		return "its letters would stay as they are"
	case !hasPartOf(kind, layout):
		return "it has no part of a " + kind
	}
	for _, name := range strings.Split(strings.ReplaceAll(layout, `\`, "/"), "/") {
		if name == "" || name == "." || name == ".." {
			return "each part of it between slashes has to be a name"
		}
	}
	return ""
}

// hasPartOf reports whether a layout looks different for different dates, or times.
func hasPartOf(kind, layout string) bool {
	one := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	other := one.AddDate(11, 1, 2) // also another day of the week
	if kind == "time" {
		other = other.Add(13*time.Hour + 13*time.Minute + 13*time.Second)
	}
	return one.Format(layout) != other.Format(layout)
}

// of returns what the placeholder of a tick becomes.
func (t tickTime) of(tick time.Time) string { return tick.UTC().Add(t.offset).Format(t.layout) }

// fillTick replaces the placeholders in a location by the time of a tick.
func fillTick(where string, tick time.Time) string {
	return ours.ReplaceAllStringFunc(where, func(placeholder string) string {
		t, err := parseTickTime(placeholder)
		if err != nil {
			return placeholder
		}
		return t.of(tick)
	})
}

// checkTickTimes returns an error if a placeholder for a time in a location is malformed.
func checkTickTimes(where string) error {
	for _, placeholder := range ours.FindAllString(where, -1) {
		if _, err := parseTickTime(placeholder); err != nil {
			return err
		}
	}
	if open := unclosed.FindString(where); open != "" {
		return fmt.Errorf("invalid placeholder %s: it has no closing brace", open)
	}
	return nil
}

// tellsTicksApart reports whether no two ticks, which are seconds apart at least, give a location the same name.
func tellsTicksApart(where string) bool {
	tick := time.Date(2026, 11, 21, 13, 4, 5, 0, time.UTC)
	for _, placeholder := range ours.FindAllString(where, -1) {
		t, err := parseTickTime(placeholder)
		if err != nil {
			continue
		}
		back, err := time.Parse(t.layout, t.of(tick))
		if err == nil && back.Equal(tick.Add(t.offset)) {
			return true
		}
	}
	return false
}
