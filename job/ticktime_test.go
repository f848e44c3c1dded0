package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func tickOf(t *testing.T, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}

// N1: ends of months and years, leap days, and the days on which clocks change: days are those of UTC, with 24 hours each.
func TestTickTime_Fill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tick, where, want string }{
		{"2026-11-21T03:04:05Z", "in-{date}-{time}.jsonl", "in-2026-11-21-20261121T030405Z.jsonl"},
		{"2026-11-21T03:04:05Z", "{date-1}{date+1}{date-0}", "2026-11-202026-11-222026-11-21"},
		{"2026-11-21T03:04:05Z", "{time-1}_{time-1d}_{time-4h}_{time+21h}", "20261120T030405Z_20261120T030405Z_20261120T230405Z_20261122T000405Z"},
		{"2026-11-21T03:04:05Z", "s3://b/{date:2006/01}/x-{date:02}.csv?region=r", "s3://b/2026/11/x-21.csv?region=r"},
		{"2026-11-21T03:04:05Z", "{date:year=2006/month=01/day=02}", "year=2026/month=11/day=21"},
		{"2026-11-21T03:04:05Z", "{time-4h:2006-01-02T15:04}", "2026-11-20T23:04"},
		{"2026-11-21T03:04:05Z", "{date:Mon 2 Jan 06}", "Sat 21 Nov 26"},
		{"2026-11-21T03:04:05Z", "{date:2006-002}", "2026-325"},
		{"2026-11-01T03:00:00Z", "{date-1:2006/01/02}", "2026/10/31"},
		{"2026-11-30T03:00:00Z", "{date+1:2006/01/02}", "2026/12/01"},
		{"2027-01-01T03:00:00Z", "{date-1:2006/01/02}", "2026/12/31"},
		{"2026-12-31T23:59:59Z", "{date+1:2006/01}", "2027/01"},
		{"2028-03-01T00:00:00Z", "{date-1}", "2028-02-29"},
		{"2028-02-29T00:00:00Z", "{date-365}", "2027-03-01"},
		{"2028-02-29T00:00:00Z", "{date+366}", "2029-03-01"},
		{"2026-03-01T12:00:00Z", "{date-1}", "2026-02-28"},
		{"2100-03-01T12:00:00Z", "{date-1}", "2100-02-28"},
		// 00:30 in Berlin before and after its clocks are put forward, and back.
		{"2026-03-28T23:30:00Z", "{date} {date-1} {date+2h}", "2026-03-28 2026-03-27 2026-03-29"},
		{"2026-03-29T22:30:00Z", "{date} {date-1} {date+2h}", "2026-03-29 2026-03-28 2026-03-30"},
		{"2026-10-24T22:30:00Z", "{date-1:2006-01-02}", "2026-10-23"},
		{"2026-10-25T23:30:00Z", "{date-1:2006-01-02}", "2026-10-24"},
		// These are no placeholders.
		{"2026-11-21T03:04:05Z", "{a,b}/{date-a,date-b}/{}/{day}", "{a,b}/{date-a,date-b}/{}/{day}"},
	} {
		require.Equal(t, c.want, fillTick(c.where, tickOf(t, c.tick)), "%s at %s", c.where, c.tick)
		require.NoError(t, checkTickTimes(c.where), c.where)
	}
}

// Whatever the offset, going there and back leads to the tick, and n days are n days of the calendar.
func TestTickTime_Offsets(t *testing.T) {
	t.Parallel()
	at := tickOf(t, "2026-02-27T23:30:00Z")
	for n := range 1500 {
		tick := at.AddDate(0, 0, n)
		require.Equal(t, tick.AddDate(0, 0, -1).Format(time.DateOnly), fillTick("{date-1}", tick))
		require.Equal(t, tick.AddDate(0, 0, -n).Format("2006/01/02"), fillTick(fmt.Sprintf("{date-%d:2006/01/02}", n), tick))
	}
}

// N1: what is malformed, or could be no date, is refused, with what to write.
func TestTickTime_Malformed(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]string{
		"x-{date-}":              "invalid placeholder {date-}: use {date} or {time}, then an offset",
		"x-{date-1w}":            "invalid placeholder {date-1w}",
		"x-{date1}":              "unknown placeholder {date1}",
		"x-{date--1}":            "invalid placeholder {date--1}",
		"x-{date-10000}":         "up to 9999 days or hours",
		"x-{date:}":              "invalid placeholder {date:}",
		"x-{date:2006}-{time-x}": "invalid placeholder {time-x}",
		"x-{date:YYYY/MM}":       "layout of placeholder {date:YYYY/MM}: its letters would stay as they are: write the time Mon Jan 2 15:04:05 2006 as it should look, such as {date:2006/01/02}",
		"x-{date:2006-mm}":       "its letters would stay",
		"x-{date:2006MMdd}":      "its letters would stay",
		"x-{date:%Y}":            "use letters, digits",
		"x-{date:report}":        "it has no part of a date",
		"x-{date:15}":            "it has no part of a date",
		"x-{time:report}":        "it has no part of a time",
		"x-{date:/2006}":         "each part of it between slashes has to be a name",
		"x-{date:2006/}":         "each part of it",
		"x-{date:2006//01}":      "each part of it",
		"x-{date:2006/../01}":    "each part of it",
		"x-{date:2006*}":         "use letters, digits",
		"x-{date.jsonl":          "invalid placeholder {date.jsonl: it has no closing brace",
		"x-{date-1:2006":         "it has no closing brace",
		"x-{date-1,2}":           "invalid placeholder {date-1,2}: it may have no comma",
		"x-{Date}":               "unknown placeholder {Date}",
		"x-{day-1}":              "unknown placeholder {day-1}",
		"x-{month+1}":            "unknown placeholder {month+1}",
		"x-{day:2006/01/02}":     "unknown placeholder {day:2006/01/02}",
		"x-{day:15.04}":          "unknown placeholder {day:15.04}",
		"x-{ date }":             "unknown placeholder { date }",
		"x-{day=1}":              "unknown placeholder {day=1}",
		"x-{~day}":               "unknown placeholder {~day}",
		"x-{Tag ä*}":             "unknown placeholder {Tag ä*}",
	} {
		s := Spec{Name: "nightly", Pool: "p", Files: &Files{Input: []string{"in.jsonl"}}, Output: "o", Report: where}.WithDefaults()
		require.ErrorContains(t, s.checkPlaceholders(), "Report "+where+": ")
		require.ErrorContains(t, s.checkPlaceholders(), want)
		if strings.HasPrefix(want, "unknown") || strings.Contains(where, ",") {
			continue
		}
		s.Report, s.Files.Input = "", []string{"a", where}
		require.ErrorContains(t, s.checkPlaceholders(), "Files.Input 2 of 2, "+where+": ")
		require.ErrorContains(t, s.checkPlaceholders(), want)
	}
}

// An hour, or any other layout with a part of a time, may stand in {time:…}; one that gives each second a name of its
// own keeps runs apart that run at once.
func TestTickTime_TellsTicksApart(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]bool{
		"{time}": true, "{time-1h}": true, "{date:20060102-150405}": true, "{time:2006/002 15.04.05}": true,
		"{date}": false, "{time:2006-01-02T15:04}": false, "{time:02T150405}": false, "{date:2006}{time:0102T150405}": false, "x": false, "{time:06-01-02 3.04.05}": false,
	} {
		require.Equal(t, want, tellsTicksApart(where), where)
	}
}

// N1: what shows only in the names of a tick is found when the schedule is made.
func TestSchedule_ChecksATick(t *testing.T) {
	t.Parallel()
	o := ScheduleOptions{Cron: []string{"@daily"}}
	s := Spec{Name: "nightly", Pool: "p", Files: &Files{Input: []string{"a-{date:2006-01-02}"}}, Output: "a-{date}"}.WithDefaults()
	require.ErrorContains(t, o.Validate(s), "at a tick such as 2026-09-23T22:59:58Z: Output a-2026-09-23 is also an input, which it would replace")
	s.Files.Input = []string{"a-{date-1}"}
	require.NoError(t, o.Validate(s))
	s.Report = strings.Repeat("{date:Monday Monday Monday Monday Monday}", 49)
	require.ErrorContains(t, o.Validate(s), "at a tick such as")
	require.ErrorContains(t, o.Validate(s), "bytes as JSON: at most 2,048")
	require.Equal(t, "Wednesday September", fillTick("{date:Monday January}", tickOf(t, longestTick[1:])))
}
