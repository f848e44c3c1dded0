package devserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jmoiron/sqlx"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	persistence "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

const databaseFile = "temporal.db"

// starts numbers the servers of this process, so that no two share a database
// connection: the server's pool keeps connections by name and never drops one.
var starts atomic.Int64

// memoryConfig describes a database in memory, a new one for every call.
func memoryConfig() *config.SQL {
	return &config.SQL{
		PluginName:        sqliteplugin.PluginName,
		DatabaseName:      fmt.Sprintf("stint-%d", starts.Add(1)),
		ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
	}
}

// fileConfig describes the database of a state directory.
func fileConfig(dir string, powerSafe bool) *config.SQL {
	synchronous := "1"
	if powerSafe {
		synchronous = "2"
	}
	return &config.SQL{
		PluginName: sqliteplugin.PluginName,
		// The server's transactions are not made for several connections: they end
		// as "database is locked". It uses one by default.
		DatabaseName: uriPath(filepath.Join(dir, databaseFile)),
		ConnectAttributes: map[string]string{
			"mode":         "rw",
			"busy_timeout": "10000",
			"journal_mode": "wal",
			"synchronous":  synchronous,
			// SQLite ignores a pragma that it does not know.
			"stint_start": strconv.FormatInt(starts.Add(1), 10),
		},
	}
}

// uriPath escapes what has a meaning in the file: URI of SQLite.
func uriPath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(path))
}

// prepare makes sure that the directory holds a complete database of this
// version. A process may die anywhere in it: the database gets its name last,
// when it and the version file are complete and on disk.
func prepare(dir string) error {
	path := filepath.Join(dir, databaseFile)
	_, err := os.Stat(path)
	if err == nil {
		return checkVersion(dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := path + ".new"
	// Left behind by a process that died, or by someone who removed the database.
	for _, stale := range []string{fresh, fresh + "-journal", path + "-wal", path + "-shm", path + "-journal"} {
		if err := os.Remove(stale); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := setupSchema(fresh); err != nil {
		return fmt.Errorf("setting up the database: %w", err)
	}
	if err := writeVersion(dir); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// setupSchema makes a database file that only its owner reads: all statements in
// one transaction, on disk when it returns.
func setupSchema(path string) (err error) {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	db, err := sql.Open(sqliteplugin.PluginName, "file:"+uriPath(path)+"?mode=rw&_pragma=synchronous(2)")
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

// makeNamespace makes the namespace unless it exists.
func makeNamespace(cfg *config.SQL, o Options) error {
	namespace, err := sqlite.NewNamespaceConfig(clusterName, o.Namespace, false, o.SearchAttributes)
	if err != nil {
		return err
	}
	namespace.Detail.Config.Retention = durationpb.New(o.Retention)
	return sqlite.CreateNamespaces(cfg, namespace)
}

// closeDatabase closes the connection that the server's pool keeps open for the
// life of the process: the write-ahead log is folded into the database, a
// database in memory is given back.
func closeDatabase(cfg *config.SQL) error {
	db, err := connection(cfg)
	if err != nil {
		return err
	}
	return db.Close()
}

// connection returns the pool's connection to a database. The pool has no way to
// close it, so it is taken from its unexported field. If that field ever
// changes, the connection stays open, which does no harm.
func connection(cfg *config.SQL) (*sqlx.DB, error) {
	db, err := persistence.NewSQLDB(sqlplugin.DbKindUnknown, cfg, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return nil, err
	}
	field := reflect.Indirect(reflect.ValueOf(db)).FieldByName("db")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*sqlx.DB]() {
		return nil, errors.New("the server keeps its connection elsewhere")
	}
	return (*sqlx.DB)(field.UnsafePointer()), nil
}
