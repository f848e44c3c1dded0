package devserver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOtherVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	setup(t, Options{Dir: dir}).Stop()
	old := version{Server: "1.20.0", Schema: "0.1", Visibility: "0.1"}
	require.NoError(t, writeJSON(filepath.Join(dir, versionFile), old, false))

	_, err := Start(t.Context(), Options{Dir: dir, Logger: silent})
	var other *VersionError
	require.ErrorAs(t, err, &other)
	require.Equal(t, dir, other.Dir)
	require.Equal(t, "1.20.0 (schema 0.1, 0.1)", other.Have)
	require.Equal(t, thisVersion().String(), other.Want)
	require.ErrorContains(t, err, "move the directory away")

	holder, err := Holder(dir)
	require.NoError(t, err)
	require.Nil(t, holder, "a refusal does not keep the directory")
}

func TestDatabaseWithoutVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, prepare(dir))
	require.NoError(t, os.Remove(filepath.Join(dir, versionFile)))
	err := prepare(dir)
	require.ErrorAs(t, err, new(*VersionError))
	require.ErrorContains(t, err, "version.json is missing")
}

func TestUnreadableVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, prepare(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, versionFile), []byte("{"), 0o600))
	require.ErrorContains(t, prepare(dir), versionFile)
}
