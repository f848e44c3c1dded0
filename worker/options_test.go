package worker

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptions_Defaults(t *testing.T) {
	t.Parallel()
	o := Options{}.withDefaults()
	require.Equal(t, runtime.NumCPU(), o.Slots)
	require.Equal(t, 30*time.Second, o.Drain)
	require.NotNil(t, o.Logger)
	require.NoError(t, o.validate())
	o = Options{Slots: 3, Drain: time.Second}.withDefaults()
	require.Equal(t, 3, o.Slots)
	require.Equal(t, time.Second, o.Drain)
}

// S15: what ignores TERM at the end of a drain is killed while there is still time to answer.
func TestOptions_KillAfter(t *testing.T) {
	t.Parallel()
	o := Options{KillAfter: 3 * time.Second, Drain: 20 * time.Second}
	require.Equal(t, 3*time.Second, o.killAfter(false))
	require.Equal(t, time.Second, o.killAfter(true))
	o.Drain = 5 * time.Minute
	require.Equal(t, 3*time.Second, o.killAfter(true))
}

func TestOptions_Validate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options Options
		says    string
	}{
		{Options{Slots: -1}, "Slots -1: use 1 to 1000"},
		{Options{Slots: 1001}, "Slots 1001: use 1 to 1000"},
		{Options{CallItems: -2}, "CallItems -2"},
		{Options{CallItems: execItems + 1}, "CallItems 100001"},
		{Options{Drain: -time.Second}, "Drain -1s"},
		{Options{KillAfter: -time.Second}, "KillAfter -1s: use more than 0s, up to 15s"},
		{Options{KillAfter: time.Minute}, "KillAfter 1m0s: use more than 0s, up to 15s"},
		{Options{Dir: "/no/such/dir"}, "Dir /no/such/dir: no such file or directory"},
		{Options{Dir: "/dev/null"}, "Dir /dev/null is not a directory"},
		{Options{Env: []string{""}}, "Env has an entry without a name"},
		{Options{Env: []string{"A=1", "=secret"}}, `Env has an entry without a name: use NAME=value or NAME`},
	} {
		require.ErrorContains(t, c.options.withDefaults().validate(), c.says)
	}
	err := Options{Env: []string{"=secret"}}.withDefaults().validate()
	require.NotContains(t, err.Error(), "secret", "D17: a value is never printed")
	err = Options{Slots: -1, CallItems: -2}.withDefaults().validate()
	require.ErrorContains(t, err, "Slots")
	require.ErrorContains(t, err, "CallItems", "all that is wrong is said at once")
}
