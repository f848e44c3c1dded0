package build

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// IN1: a release is what its stamp says, and another build what the go command has noted.
func TestOf(t *testing.T) {
	noted := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.0.0-2026"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-12-01T00:00:00Z"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	i := of(noted)
	require.Equal(t, []any{"v0.0.0-2026", "abc", "2026-12-01T00:00:00Z", true}, []any{i.Version, i.Commit, i.Date, i.Modified})
	require.Equal(t, "v0.0.0-2026", i.Short())
	require.Equal(t, "(devel)", of(nil).Version)
	require.Empty(t, of(nil).Short())
	require.Equal(t, "0123456789ab", Info{Version: "(devel)", Commit: "0123456789abcdef"}.Short())

	version, commit, date = "v0.1.0", "def", "2026-12-02T00:00:00Z"
	defer func() { version, commit, date = "", "", "" }()
	i = of(noted)
	require.Equal(t, []any{"v0.1.0", "def", "2026-12-02T00:00:00Z", false}, []any{i.Version, i.Commit, i.Date, i.Modified})
	require.Equal(t, "v0.1.0", i.Short(), "the stamp counts")
}
