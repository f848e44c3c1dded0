package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/service/worker/scheduler"
)

// ticksBetween are the times at which Temporal would start a job.
func ticksBetween(t *testing.T, o ScheduleOptions, from, until time.Time) (all []time.Time) {
	t.Helper()
	expressions, zone := o.Ticks()
	compiled, err := scheduler.NewSpecBuilder(dynamicconfig.GetIntPropertyFn(0), dynamicconfig.GetIntPropertyFn(0)).NewCompiledSpec(&schedulepb.ScheduleSpec{CronString: expressions, TimezoneName: zone})
	require.NoError(t, err)
	for at := from.Add(-time.Second); ; {
		next, err := compiled.GetNextTime("", at)
		require.NoError(t, err)
		if at = next.Nominal; at.IsZero() || !at.Before(until) {
			return all
		}
		all = append(all, at.UTC())
	}
}

// Expressions for each hour tick evenly while the clock is changed, everywhere; a time of day that is repeated ticks as
// the documents say.
func TestD44_TicksWhenSummerTimeEnds(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC) // Berlin puts the clock back on the 25th, New York on 1 November
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "UTC"} {
		for expression, want := range map[string]time.Duration{
			"*/30 * * * *": 30 * time.Minute, "@hourly": time.Hour, "* * * * *": time.Minute, "15,45 * * * * *": 30 * time.Minute,
			"5 */20 * * * * *": 20 * time.Minute, "@every 10m": 10 * time.Minute, "0-59/10 * * * * # often": 10 * time.Minute,
			"*/30 0-23 * * *": 30 * time.Minute, "7 */1 * jan-dec *": time.Hour,
		} {
			for _, o := range []ScheduleOptions{
				{Cron: []string{expression}, TimeZone: zone}, {Cron: []string{"TZ=" + zone + " " + expression}},
			} {
				if o.TimeZone == "" && expression == "@every 10m" {
					continue
				}
				require.NoError(t, o.checkTimes())
				all := ticksBetween(t, o, from, from.AddDate(0, 0, 9))
				require.Len(t, all, int(9*24*time.Hour/want), "%s in %s", expression, zone)
				for i := range all[1:] {
					require.Equal(t, want, all[i+1].Sub(all[i]), "%s in %s after %s", expression, zone, all[i])
				}
			}
		}
	}
	for zone, want := range map[string][]string{
		"Europe/Berlin": {"2026-10-24 00:30", "2026-10-25 01:30", "2026-10-26 01:30"}, // 2:30, the second on the 25th
		"UTC":           {"2026-10-24 02:30", "2026-10-25 02:30", "2026-10-26 02:30"},
	} {
		var got []string
		for _, at := range ticksBetween(t, ScheduleOptions{Cron: []string{"30 2 * * *"}, TimeZone: zone}, from.Add(-12*time.Hour), from.AddDate(0, 0, 2)) {
			got = append(got, at.Format("2006-01-02 15:04"))
		}
		require.Equal(t, want, got, zone)
	}
	twice := ticksBetween(t, ScheduleOptions{Cron: []string{"30 1 * * *"}, TimeZone: "America/New_York"}, from.AddDate(0, 0, 7), from.AddDate(0, 0, 8))
	require.Len(t, twice, 2)
	none := ticksBetween(t, ScheduleOptions{Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
		time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC), time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC))
	require.Empty(t, none, "the clock skips it")
}

func TestD44_TimesThatTemporalDoesNotHave(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"@every 1500ms", "@every 1.5s", "@every 90m/500ms"} {
		require.ErrorContains(t, checkCron(expression), "use whole seconds", expression)
	}
	for _, expression := range []string{"@every 1.5m", "@every 90m/30s", "@every 1d"} {
		require.NoError(t, checkCron(expression), fmt.Sprint(expression))
	}
}
