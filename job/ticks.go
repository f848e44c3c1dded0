package job

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
)

// ticks are the times of a schedule for Temporal. Temporal goes through the minutes of a day by the clock of the time zone. When that is put
// back it leaves out an hour east of Greenwich, so expressions for each hour become intervals, which no clock changes.
func (o ScheduleOptions) ticks() client.ScheduleSpec {
	spec := client.ScheduleSpec{TimeZoneName: o.TimeZone}
	for _, expression := range o.Cron {
		zone, _ := cronZone(expression) // it is valid
		if zone == "" {
			zone = o.TimeZone
		}
		if hourly := hourlyTicks(expression); hourly != nil && changesByHours(zone) {
			spec.CronExpressions, spec.TimeZoneName = append(spec.CronExpressions, hourly...), zone
			continue
		}
		spec.CronExpressions = append(spec.CronExpressions, expression)
	}
	return spec
}

// hourlyTicks returns intervals that tick when a cron expression for each hour of each day does; nil if it is for other times, too.
func hourlyTicks(expression string) (intervals []string) {
	rest := strings.TrimSpace(expression)
	if strings.HasPrefix(rest, "TZ=") || strings.HasPrefix(rest, "CRON_TZ=") {
		_, rest, _ = strings.Cut(rest, " ")
	}
	rest, _, _ = strings.Cut(rest, "#")
	fields := strings.Fields(rest)
	if strings.TrimSpace(rest) == "@hourly" {
		fields = strings.Fields("0 * * * *")
	}
	second := "0"
	if len(fields) == len(cronFields) {
		second, fields = fields[0], fields[1:]
	}
	if len(fields) < 5 {
		return nil
	}
	for _, field := range fields[1:] {
		if field != "*" {
			return nil
		}
	}
	seconds, minutes := cronFields[0].matches(second), cronFields[1].matches(fields[0])
	if len(seconds) != 1 {
		return nil
	}
	if len(minutes) == 60 {
		return []string{fmt.Sprintf("@every 1m/%ds", seconds[0])}
	}
	for _, minute := range minutes {
		intervals = append(intervals, fmt.Sprintf("@every 1h/%ds", 60*minute+seconds[0]))
	}
	return intervals
}

// matches are the values that a valid field matches, in order.
func (f cronField) matches(text string) (values []int) {
	matched := map[int]bool{}
	for part := range strings.SplitSeq(text, ",") {
		part, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			_, _ = fmt.Sscan(stepText, &step) // it is valid
		}
		from, to := f.min, f.max
		if part != "*" {
			first, last, isRange := strings.Cut(part, "-")
			from, _ = f.value(first)
			if isRange {
				to, _ = f.value(last)
			} else if !stepped {
				to = from
			}
		}
		for v := from; v <= to; v += step {
			matched[v] = true
		}
	}
	for v := f.min; v <= f.max; v++ {
		if matched[v] {
			values = append(values, v)
		}
	}
	return values
}

// changesByHours reports whether the clock of a time zone is changed in the course of the year, and is whole hours off UTC all the time.
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
