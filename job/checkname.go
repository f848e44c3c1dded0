package job

import (
	"fmt"
	"regexp"
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// MaxName is the length limit of job and pool names, in bytes.
const MaxName = 200

// CheckName returns an error if name is not a valid name; what, such as "job" or "pool", is what it
// names. A job may also have a name as schedules give them (see [ScheduledName]).
func CheckName(what, name string) error {
	if schedule, _, ok := ScheduledName(name); ok && what == "job" && len(name) <= MaxName {
		return checkName(what, schedule, MaxName)
	}
	return checkName(what, name, MaxName)
}

func checkName(what, name string, limit int) error {
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

// FieldError says that a field of a [Spec], or of options, has a value that cannot be used. Validate
// joins one for each such field; errors.As finds the first.
type FieldError struct {
	Field   string // as Go names it: "Window"
	Problem string // the value, if there is one, and what to use: "50000: use 1 to 10000, or auto"
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

func fieldError(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
