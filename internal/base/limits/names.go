package limits

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var (
	namePattern      = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	beginningPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{0,8}Z?)?$`)
	scheduledPattern = regexp.MustCompile(`^(.*)-([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)$`)
)

// CheckName returns an error if name is not a valid name; what, such as "job" or "pool", is what it
// names. A job may also have a name as schedules give them (NAME-2026-11-21T03:00:00Z).
func CheckName(what, name string) error {
	if schedule, _, ok := ScheduledName(name); ok && what == "job" && len(name) <= MaxName {
		return CheckPlainName(what, schedule, MaxName)
	}
	return CheckPlainName(what, name, MaxName)
}

// CheckPlainName is CheckName for a name of at most limit bytes, which is not that of a scheduled job.
func CheckPlainName(what, name string, limit int) error {
	if name == "" {
		return fmt.Errorf("%s name is empty: use lower-case letters, digits and dashes", what)
	}
	if len(name) > limit {
		return fmt.Errorf("%s name is %d bytes long: at most %d are allowed", what, len(name), limit)
	}
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%s name %q: use lower-case letters, digits and dashes, beginning with a letter or digit", what, name)
	}
	return nil
}

// CheckBeginning returns an error if no job's name begins with a text: neither a plain one nor that of a scheduled job.
func CheckBeginning(text string) error {
	switch {
	case len(text) > MaxName:
		return fmt.Errorf("a job name is at most %d bytes long", MaxName)
	case !beginningPattern.MatchString(text):
		return fmt.Errorf("no job name begins with %q: use lower-case letters, digits and dashes, or a scheduled job's NAME-2026-11-21T03:00:00Z", text)
	}
	return nil
}

// ScheduledName splits the name of a job that a schedule has started, NAME-2026-11-21T03:00:00Z, into
// the schedule's name and the time of its tick. It is not ok for other names.
func ScheduledName(name string) (schedule string, at time.Time, ok bool) {
	found := scheduledPattern.FindStringSubmatch(name)
	if found == nil {
		return "", time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, found[2])
	return found[1], at, err == nil
}

// autoWindow is how people write an automatic window.
const autoWindow = "auto"

// ParseWindow reads a window as people write it: 1 … [MaxWindow], or auto, which is 0.
func ParseWindow(text string) (int, error) {
	if text == autoWindow {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxWindow {
		return 0, fmt.Errorf("window %s: use 1 to %d, or %s", text, MaxWindow, autoWindow)
	}
	return n, nil
}

// DescribeWindow writes a window as people do: "64"; or, if it is set to 0, "auto", with the one in force if that is
// known (not 0): "auto (400)".
func DescribeWindow(set, inForce int) string {
	switch {
	case set > 0:
		return strconv.Itoa(set)
	case inForce > 0:
		return fmt.Sprintf("%s (%d)", autoWindow, inForce)
	}
	return autoWindow
}
