package devserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
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
			require.NoError(t, writeDatabase(filepath.Join(dir, databaseFile+".new")))
		},
		"before the database has its name": func(t *testing.T, dir string) {
			require.NoError(t, writeDatabase(filepath.Join(dir, databaseFile+".new")))
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

var newDatabase = flag.Bool("database", false, "write empty.db.gz anew")

// The database that a state begins with has the schema of this version of the server.
func TestEmptyDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wanted, have := filepath.Join(dir, "wanted.db"), filepath.Join(dir, "have.db")
	require.NoError(t, setupSchema(wanted))
	if *newDatabase {
		data, err := os.ReadFile(wanted)
		require.NoError(t, err)
		var compressed bytes.Buffer
		w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, errors.Join(err, w.Close()))
		emptyDatabase = compressed.Bytes()
		require.NoError(t, os.WriteFile("empty.db.gz", emptyDatabase, 0o600))
	}
	require.NoError(t, writeDatabase(have))
	require.Equal(t, contents(t, wanted), contents(t, have), "go test ./internal/temporal/devserver -run TestEmptyDatabase -database")
}

// contents are the schema of a database and its rows, without the times at which they were written.
func contents(t *testing.T, path string) (all []string) {
	t.Helper()
	db, err := sql.Open(sqliteplugin.PluginName, "file:"+uriPath(path)+"?mode=ro")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	schema := query(t, db, "select name, type, sql from sqlite_master order by type, name")
	require.NotEmpty(t, schema)
	for _, row := range schema {
		all = append(all, fmt.Sprint(row...))
		if row[1] != "table" {
			continue
		}
		for _, values := range query(t, db, fmt.Sprintf("select * from %q", row[0])) {
			for i, value := range values {
				if _, isTime := value.(time.Time); isTime {
					values[i] = "a time"
				}
			}
			all = append(all, fmt.Sprint(values...))
		}
	}
	return append(all, pragma(t, db, "encoding"), pragma(t, db, "page_size"), pragma(t, db, "user_version"), pragma(t, db, "integrity_check"))
}

func query(t *testing.T, db *sql.DB, text string) (all [][]any) {
	t.Helper()
	rows, err := db.Query(text)
	require.NoError(t, err)
	defer func() { require.NoError(t, errors.Join(rows.Err(), rows.Close())) }()
	columns, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		require.NoError(t, rows.Scan(into...))
		all = append(all, values)
	}
	return all
}

// setupSchema makes a database file from the statements of the schema.
func setupSchema(path string) (err error) {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	db, err := sql.Open(sqliteplugin.PluginName, "file:"+uriPath(path)+"?mode=rw")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := sqlite.SetupSchemaOnDB(schemaTx{tx: tx}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// schemaTx is as much of a database as setting up the schema needs.
type schemaTx struct {
	sqlplugin.AdminDB
	tx *sql.Tx
}

// Exec implements sqlplugin.AdminDB.
func (s schemaTx) Exec(stmt string, args ...any) error {
	_, err := s.tx.Exec(stmt, args...)
	return err
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
