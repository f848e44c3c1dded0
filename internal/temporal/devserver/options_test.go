package devserver

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	o := Options{}.withDefaults()
	require.NoError(t, o.validate())
	require.Equal(t, "127.0.0.1", o.IP)
	require.Equal(t, AnyPort, o.Port)
	require.Equal(t, NoUI, o.UIPort)
	require.Equal(t, "default", o.Namespace)
	require.Equal(t, 7*24*time.Hour, o.Retention)
	require.True(t, o.Logger.Enabled(t.Context(), slog.LevelError))
	require.False(t, o.Logger.Enabled(t.Context(), slog.LevelWarn))
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		`"localhost" is not an IP address`:                   {IP: "localhost"},
		"port 65536 is outside -1 to 65535":                  {Port: 65536},
		"web UI port -2 is outside -1 to 65535":              {UIPort: -2},
		"preferred port -1 is outside 0 to 65535":            {PreferPort: -1},
		"preferred web UI port 100000 is outside 0 to 65535": {PreferUIPort: 100000},
		"retention 59m0s is below 1h0m0s":                    {Retention: 59 * time.Minute},
	} {
		_, err := Start(t.Context(), o)
		require.EqualError(t, err, "server options: "+want)
	}
}
