package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
)

// The overlap policies: what a schedule does at a tick while its last run is still running. All but OverlapAllow never have two runs at the same time.
const (
	OverlapSkip      = "skip"      // the tick is skipped
	OverlapQueueOne  = "queue-one" // one run waits for its turn; further ticks are skipped
	OverlapQueue     = "queue"     // all wait for their turn
	OverlapStop      = "stop"      // the run is stopped, with its grace; the new one starts then
	OverlapTerminate = "terminate" // the run is ended at once, with nothing kept
	OverlapAllow     = "allow"     // both run
)

// overlaps lists the policies in the order in which messages list them.
var overlaps = []string{OverlapSkip, OverlapQueueOne, OverlapQueue, OverlapStop, OverlapTerminate, OverlapAllow}

// ScheduleOptions say when a schedule starts its job. Cron is required.
type ScheduleOptions struct {
	// Cron lists expressions of five fields, or such as @daily; a tick is when any of them matches. Required.
	//
	// An expression has one of these forms:
	//
	//   - five fields (minute, hour, day of month, month, day of week), six (and the year) or seven (the
	//     second before them); a field is *, a value, a range 1-5, either with a step (*/15, 9-17/2), or a
	//     list of these; months and days of the week may be names; the day of the week is 0 to 7;
	//   - @hourly, @daily (@midnight), @weekly, @monthly, @yearly (@annually);
	//   - @every 90m, or @every 6h/2h: two hours after every sixth. Units are s, m, h and d; the times are whole
	//     seconds.
	//
	// TZ=Europe/Berlin before it sets the time zone, and # begins a comment. Unlike in some crons, a day
	// must match both the day of the month and the day of the week.
	Cron []string
	// TimeZone is that of the expressions, such as Europe/Berlin. A time that a clock skips in spring has no tick. A
	// time that it repeats in autumn has one, or two: Temporal decides, and at present it is one, the second, east of
	// Greenwich, and two west of it. Expressions for each hour of each day tick evenly all the time. Default: UTC.
	TimeZone string
	// Overlap says what happens at a tick while the last run is still running. Default: OverlapSkip.
	Overlap string
	// CatchUp is how late a missed tick may still run after the server was down: 10 s … 10 years.
	// Such ticks overlap like others, so with OverlapSkip one run replaces all of them. Default: the
	// server's, a year.
	CatchUp time.Duration
	// Replace replaces an existing schedule of the name, at once, without a moment in which there is none. The runs
	// that it has started continue.
	Replace bool
	// TaskTimeout is the workflow task timeout; default [DefaultTaskTimeout].
	TaskTimeout time.Duration
}

const (
	minCatchUp = 10 * time.Second
	// longestTick is what the server appends to the name of a scheduled job's run, at a tick for which no layout takes
	// more bytes: a Wednesday in September.
	longestTick = "-2026-09-23T22:59:58Z"
	tickName    = len(longestTick)
)

// Validate returns an error that names every invalid field of the options and of the spec, which must
// have its defaults filled in, or nil.
func (o ScheduleOptions) Validate(spec Spec) error {
	errs := []error{checkScheduleName(spec.Name), o.checkTimes(), spec.checkPlaceholders(), spec.checkScheduledOutput()}
	if !slices.Contains(overlaps, o.overlap()) {
		errs = append(errs, fieldError("Overlap", "%q: use %s", o.Overlap, overlapNames()))
	}
	if o.overlap() == OverlapAllow {
		errs = append(errs, spec.checkApart())
	}
	switch {
	case spec.Feed != nil:
		errs = append(errs, errors.New("a feed is not started by a schedule: it runs until it is closed"))
	case spec.Loop != nil:
		errs = append(errs, errors.New("a loop is not started by a schedule: it runs until it is stopped, and Every is its interval"))
	}
	if slices.Contains(spec.Inputs(), StandardInput) {
		errs = append(errs, errors.New("a scheduled job cannot read the standard input: name a file that the workers can read"))
	}
	if err := errors.Join(append(errs, spec.Validate())...); err != nil {
		return err
	}
	if err := spec.Ticked(spec.Name + longestTick).Validate(); err != nil {
		return fmt.Errorf("at a tick such as %s: %w", longestTick[1:], err)
	}
	return nil
}

func checkScheduleName(name string) error {
	if err := limits.CheckPlainName("schedule", name, limits.MaxName-tickName); err != nil && name != "" {
		return err
	}
	return nil // Spec.Validate reports an empty one
}

// checkTimes checks the fields that say when the ticks are.
func (o ScheduleOptions) checkTimes() error {
	if len(o.Cron) == 0 {
		return errors.New("no cron expression given: use at least one, such as '0 3 * * *'")
	}
	zones := map[string]bool{}
	for _, expression := range o.Cron {
		c, err := parseCron(expression)
		if err != nil {
			return err
		}
		zones[c.zone] = true
	}
	if len(zones) > 1 || o.TimeZone != "" && !zones[""] && !zones[o.TimeZone] {
		return errors.New("a schedule has one time zone: set it once, beside its cron expressions")
	}
	if o.TimeZone != "" {
		if err := checkZone(o.TimeZone); err != nil {
			return err
		}
	}
	if o.CatchUp != 0 && (o.CatchUp < minCatchUp || o.CatchUp > maxDuration) {
		return fieldError("CatchUp", "%v: use %v to %v", o.CatchUp, minCatchUp, maxDuration)
	}
	return nil
}

func (o ScheduleOptions) overlap() string { return cmp.Or(o.Overlap, OverlapSkip) }

func overlapNames() string {
	last := len(overlaps) - 1
	return strings.Join(overlaps[:last], ", ") + " or " + overlaps[last]
}
