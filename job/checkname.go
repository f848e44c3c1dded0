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
