package starter

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/job"
)

// checkPlaces refuses a job that would write into a working directory which cannot be written, because nothing names another place.
func (o *runOptions) checkPlaces(fs *pflag.FlagSet, p *Program, spec job.Spec, writable func(dir string) bool) error {
	if writable(p.Dir) {
		return nil
	}
	var flags []string
	if state := p.path(defaultState); !fs.Changed("state") && !writable(state) {
		flags = append(flags, "--state DIR")
	}
	if spec.Errors == filepath.Join(p.Dir, stdoutErrors) {
		if info, err := os.Lstat(spec.Errors); err != nil || info.Mode().IsRegular() {
			flags = append(flags, "--errors FILE")
		}
	}
	if len(flags) == 0 {
		return nil
	}
	return usageError("the working directory, %s, cannot be written: name another place with %s", p.Dir, strings.Join(flags, " and "))
}
