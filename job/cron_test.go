package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Which expressions Temporal takes is checked with a server: see TestSchedule_CronIsWhatTheServerTakes
// in package starter.
func TestCheckCron(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"0 3 * * *", " */15 9-17 * * mon-fri ", "@daily", "@every 90m", "CRON_TZ=Europe/Berlin 0 3 * * * # nightly"} {
		require.NoError(t, checkCron(good), "%q", good)
	}
	tests := []struct{ expression, says string }{
		{"", "5 to 7 fields"},
		{"nightly", "@daily"},
		{"* * * *", "5 to 7 fields"},
		{"60 * * * *", `minute "60": use *, 0 to 59`},
		{"0 24 * * *", `hour "24"`},
		{"0 0 0 * *", `day of month "0"`},
		{"0 0 * foo *", `month "foo"`},
		{"0 0 * * 5-1", `day of week "5-1"`},
		{"0 0 1 1 * 1999", `year "1999"`},
		{"61 0 0 1 1 * 2030", `second "61"`},
		{"*/0 * * * *", `minute "*/0"`},
		{"*/4294967297 * * * *", `minute "*/4294967297"`},
		{"@every", "'@every 90m'"},
		{"@every 10ms", "1s or more"},
		{"@every 1h/2h", "less than the interval"},
		{"TZ=Atlantis/Center 0 3 * * *", "Europe/Berlin"},
		{"0 3 * * * #" + strings.Repeat("x", 201), "200 bytes"},
	}
	for _, test := range tests {
		err := checkCron(test.expression)
		require.ErrorContains(t, err, test.says, "%q", test.expression)
		require.ErrorContains(t, err, "cron expression")
	}
}

func checkCron(expression string) error {
	_, err := parseCron(expression)
	return err
}
