package starter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// describeError writes an error for the command line. Errors of packages job and worker speak of Go's fields and
// methods; here they speak of flags and commands.
func describeError(err error) string {
	text := err.Error()
	if errors.Is(err, converter.ErrEncodingIsNotSupported) {
		text += "\nThe job's payloads are encrypted: give the file of the keys with --codec-key-file, or in " + codecKeyVariable
	}
	for _, e := range leaves(err) {
		if said := inFlags(e); said != "" {
			text = strings.ReplaceAll(text, e.Error(), said)
		}
	}
	return text
}

// leaves returns an error and all that it wraps.
func leaves(err error) []error {
	all := []error{err}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			all = append(all, leaves(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			all = append(all, leaves(inner)...)
		}
	}
	return all
}

// inFlags returns the text that replaces that of an error of packages job and worker; empty: its own stays.
func inFlags(err error) string {
	switch e := err.(type) {
	case *temporal.ApplicationError: // made for workflows: it says its type, and its cause again
		return e.Message()
	case *job.FieldError:
		return flagName(e.Field) + " " + fieldReference.ReplaceAllStringFunc(e.Problem, flagName)
	case *jobs.ExistsError:
		return fmt.Sprintf("a job named %q exists already: choose another name, or start it anew with --fresh", e.Name)
	case *jobs.NotFoundError:
		return fmt.Sprintf("there is no job named %q: 'stint list' shows all jobs", e.Name)
	case *jobs.RunningError:
		if e.State == job.Stopping {
			return fmt.Sprintf("job %s is still stopping: wait for its end with 'stint watch %s'", e.Name, e.Name)
		}
		if e.Paused {
			return fmt.Sprintf("job %s is running, but paused: 'stint unpause %s' has it go on", e.Name, e.Name)
		}
	case *jobs.StuckError:
		return strings.Replace(e.Error(), "StartOptions.Fresh", "--fresh", 1)
	case *jobs.NotCompletedError:
		return fmt.Sprintf("job %s is %s: resume it first ('stint resume %s'), and run its failed items again once it has completed", e.Name, e.State, e.Name)
	case *jobs.NothingFailedError:
		if e.Dropped {
			return fmt.Sprintf("job %s drops failed items (--on-error drop): there are no records to run them again from", e.Name)
		}
	case *jobs.RedriveBegunError:
		return strings.Replace(e.Error(), "by a redrive or resume without a where of its own", fmt.Sprintf("with 'stint redrive %s' without --where", e.Name), 1)
	case *jobs.ScheduleExistsError:
		return fmt.Sprintf("a schedule named %q exists already: choose another name, replace it with --fresh, or delete it with 'stint schedule delete %s'", e.Name, e.Name)
	case *jobs.ScheduleNotFoundError:
		return fmt.Sprintf("there is no schedule named %q: 'stint schedule list' shows all schedules", e.Name)
	case *jobs.StillRunningError:
		return fmt.Sprintf("schedule %s starts nothing while %s runs: wait for that run, or stop it with 'stint stop %s'", e.Name, e.Run, e.Run)
	case *jobs.FeedError:
		return feedInFlags(e)
	}
	return ""
}

// feedInFlags is inFlags for the errors of feeds.
func feedInFlags(e *jobs.FeedError) string {
	switch e.Code {
	case jobs.CodeFull:
		return e.Error() + ": put the items again later, or wait for room with --wait"
	case jobs.CodeClosed:
		return fmt.Sprintf("feed %s has been closed: it takes no more items; 'stint start --feed' starts another one", e.Feed)
	case jobs.CodeStopped:
		if e.State == job.Stopping {
			return fmt.Sprintf("feed %s is stopping: 'stint resume %s' continues it once it has stopped", e.Feed, e.Feed)
		}
		return fmt.Sprintf("feed %s has been stopped: 'stint resume %s' continues it", e.Feed, e.Feed)
	case jobs.CodeNotFeed:
		return fmt.Sprintf("job %s is not a feed, it takes no items: 'stint start --feed' starts one", e.Feed)
	case jobs.CodeUnserved:
		return fmt.Sprintf("feed %s takes no items until a worker serves its pool", e.Feed)
	}
	return ""
}

// fieldReference is how the problem of a *job.FieldError names other fields.
var fieldReference = regexp.MustCompile(`\b(Spec|Stage|Files|Feed|Loop)\.[A-Z][A-Za-z]*`)

// flagNames are the flags, or keys of a job file, that are not made from their fields' names.
var flagNames = map[string]string{"CPUs": "cpus", "KeepErrors": "fail-fast", "RequestRate": "rpm", "TokenRate": "tpm"}

// innerUpper is where the name of a flag has a hyphen.
var innerUpper = regexp.MustCompile(`\B[A-Z]`)

// flagName returns the flag of a field: "batch-items" of "BatchItems" and of "Stage.BatchItems".
func flagName(field string) string {
	field = field[strings.LastIndexByte(field, '.')+1:]
	if name, ok := flagNames[field]; ok {
		return name
	}
	return strings.ToLower(innerUpper.ReplaceAllString(field, "-$0"))
}
