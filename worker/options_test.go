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

func TestOptions_Validate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options Options
		says    string
	}{
		{Options{Slots: -1}, "slots -1: use 1 to 1000"},
		{Options{Slots: 1001}, "slots 1001: use 1 to 1000"},
		{Options{CallItems: -2}, "call-items -2"},
		{Options{CallItems: execItems + 1}, "call-items 100001"},
		{Options{Drain: -time.Second}, "drain -1s"},
		{Options{KillAfter: -time.Second}, "kill-after -1s: use more than 0s, up to 15s"},
		{Options{KillAfter: time.Minute}, "kill-after 1m0s: use more than 0s, up to 15s"},
		{Options{Dir: "/no/such/dir"}, "dir"},
		{Options{Dir: "/dev/null"}, "/dev/null is not a directory"},
		{Options{Env: []string{""}}, `env ""`},
		{Options{Env: []string{"A=1", "=x"}}, `env "=x": use NAME=value or NAME`},
	} {
		require.ErrorContains(t, c.options.withDefaults().validate(), c.says)
	}
	err := Options{Slots: -1, CallItems: -2}.withDefaults().validate()
	require.ErrorContains(t, err, "slots")
	require.ErrorContains(t, err, "call-items", "all that is wrong is said at once")
}
