package devserver

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

func TestStateSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address, process := child(t, dir)
	c, err := client.Dial(client.Options{HostPort: address, Logger: log.NewStructuredLogger(silent)})
	require.NoError(t, err)
	startWaiting(t, c, "w")
	c.Close()

	holder, err := Holder(dir)
	require.NoError(t, err)
	require.NotNil(t, holder)
	require.Equal(t, process.Process.Pid, holder.PID)
	require.Equal(t, address, holder.Address)

	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())

	holder, err = Holder(dir)
	require.NoError(t, err)
	require.Nil(t, holder, "the lock dies with the process")
	requireRunning(t, dial(t, setup(t, Options{Dir: dir})), "w")
}

// A process may die anywhere in the first start. Each case is what one of these
// deaths leaves behind.
func TestPrepareAfterADeath(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, dir string){
		"before anything": func(*testing.T, string) {},
		"with half a schema": func(t *testing.T, dir string) {
			touch(t, filepath.Join(dir, databaseFile+".new"), "half a database")
			touch(t, filepath.Join(dir, databaseFile+".new-journal"), "half a journal")
		},
		"before the version file": func(t *testing.T, dir string) {
			require.NoError(t, setupSchema(filepath.Join(dir, databaseFile+".new")))
		},
		"before the database has its name": func(t *testing.T, dir string) {
			require.NoError(t, setupSchema(filepath.Join(dir, databaseFile+".new")))
			require.NoError(t, writeVersion(dir))
		},
		"and someone removed the database": func(t *testing.T, dir string) {
			require.NoError(t, writeJSON(filepath.Join(dir, versionFile), version{Server: "0.1"}, false))
			touch(t, filepath.Join(dir, databaseFile+"-wal"), "of the removed database")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			leave(t, dir)
			s := setup(t, Options{Dir: dir})
			startWaiting(t, dial(t, s), "w")
			require.NoFileExists(t, filepath.Join(dir, databaseFile+".new"))
			require.NoError(t, checkVersion(dir))
		})
	}
}

func touch(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestFileConfigReachesSQLite(t *testing.T) {
	t.Parallel()
	for _, powerSafe := range []bool{false, true} {
		dir := t.TempDir()
		require.NoError(t, prepare(dir))
		cfg := fileConfig(dir, powerSafe)
		require.NoError(t, makeNamespace(cfg, Options{}.withDefaults()))
		db, err := connection(cfg)
		require.NoError(t, err)
		require.Equal(t, "wal", pragma(t, db.DB, "journal_mode"))
		require.Equal(t, cfg.ConnectAttributes["synchronous"], pragma(t, db.DB, "synchronous"))
		require.NoError(t, closeDatabase(cfg))
		require.Error(t, db.Ping(), "closed for good")
	}
}

func pragma(t *testing.T, db *sql.DB, name string) string {
	t.Helper()
	var value string
	require.NoError(t, db.QueryRow("pragma "+name).Scan(&value))
	return value
}
