package limits

import (
	"fmt"
	"regexp"
)

// MaxVersion is the length of the longest version of a handler, in bytes.
const MaxVersion = 64

// PinFirst pins a job to the version of the handler whose worker begins it.
const PinFirst = "first"

var versionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+:-]*$`)

// CheckVersion returns an error if a text cannot be the version of a handler: it names task queues.
func CheckVersion(version string) error {
	if len(version) > MaxVersion || !versionPattern.MatchString(version) || version == PinFirst {
		return fmt.Errorf("version %q: use up to %d letters, digits and any of . _ + : -, begin with a letter or digit, and not %q", version, MaxVersion, PinFirst)
	}
	return nil
}
