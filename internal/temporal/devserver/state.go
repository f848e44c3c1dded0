//go:build !noserver

package devserver

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	persistence "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-run/stint/internal/base/disk"
	"github.com/stint-run/stint/internal/base/text"
)

const databaseFile = "temporal.db"

// starts numbers the servers of this process, so that no two share a database connection: the server's pool keeps
// connections by name and never drops one.
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
		// The server's transactions are not made for several connections: they end as "database is locked". It uses one
		// by default.
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

// prepare makes sure that the directory holds a complete database of this version. A process may die anywhere in it:
// the database gets its name last, when it and the version file are complete and on disk.
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
	if err := writeDatabase(fresh); err != nil {
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

// emptyDatabase is a database with Temporal's schema, compressed. Copying it is quicker than to run
// all statements of the schema. TestEmptyDatabase compares it with them, and makes it.
//
//go:embed empty.db.gz
var emptyDatabase []byte

// writeDatabase makes a database file that only its owner reads: it is on disk when it returns.
func writeDatabase(path string) error {
	content, err := gzip.NewReader(bytes.NewReader(emptyDatabase))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
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

// closeDatabase closes the connection that the server's pool keeps open for the life of the process: the write-ahead
// log is folded into the database, a database in memory is given back.
func closeDatabase(cfg *config.SQL) error {
	db, err := connection(cfg)
	if err != nil {
		return err
	}
	return db.Close()
}

// connection returns the pool's connection to a database. The pool has no way to close it, so it is taken from its
// unexported field. If that field ever changes, the connection stays open, which does no harm.
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

const (
	// leastRoom, in bytes, must be free on the disk of a state directory for a server to start; people are warned if it
	// has less than lowRoom while the server runs. Without room the server cannot record anything, and all jobs wait.
	leastRoom = 32 << 20
	lowRoom   = 16 << 20
	roomEvery = time.Second
)

// FullError reports that the disk of the state directory has no room for a server.
type FullError struct {
	Dir   string
	Space disk.Space
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of %s, mounted at %s, has %s free and at least %s are needed: free some space there, or use another state directory",
		e.Dir, e.Space.At, mebibytes(e.Space.Free), mebibytes(leastRoom))
}

// leastFile is how long, in bytes, the files of a state directory may have to get for a server to work.
const leastFile = 16 << 20

// checkFileLimit returns an error if the files of this process may not get long enough for a state directory.
func checkFileLimit(limit uint64) error {
	if limit >= leastFile {
		return nil
	}
	return fmt.Errorf("files of this process may have at most %s (ulimit -f), and the database may need %s: raise that limit",
		mebibytes(int64(limit)), mebibytes(leastFile))
}

// mebibytes names a number of bytes; in bytes if it is less than a mebibyte.
func mebibytes(n int64) string {
	if n < 1<<20 {
		return text.Thousands(n) + " bytes"
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// checkRoom returns a *FullError if the disk of a state directory has too little room to start.
func checkRoom(dir string, spaceOf func(string) (disk.Space, error)) error {
	space, err := spaceOf(dir)
	if err != nil || space.Free >= leastRoom {
		return nil // what is not known shows when something is written
	}
	return &FullError{Dir: dir, Space: space}
}

// fullOr returns the *FullError of a start that failed because the disk of the state directory filled up meanwhile,
// and otherwise err.
func fullOr(dir string, spaceOf func(string) (disk.Space, error), err error) error {
	if dir == "" {
		return err
	}
	if space, unknown := spaceOf(dir); unknown == nil && space.Free < lowRoom {
		return &FullError{Dir: dir, Space: space}
	}
	return err
}

// watchRoom calls note when the disk of a state directory gets full, and when it has room again, until quit is closed.
func watchRoom(dir string, spaceOf func(string) (disk.Space, error), note func(string), quit <-chan struct{}) {
	ticks := time.NewTicker(roomEvery)
	defer ticks.Stop()
	for low := false; ; {
		select {
		case <-quit:
			return
		case <-ticks.C:
		}
		space, err := spaceOf(dir)
		switch {
		case err != nil:
		case !low && space.Free < lowRoom:
			low = true
			note(fmt.Sprintf("the disk of %s, mounted at %s, is full (%s free): nothing can be recorded; free some space there, and everything continues",
				dir, space.At, mebibytes(space.Free)))
		case low && space.Free >= leastRoom:
			low = false
			note(fmt.Sprintf("the disk of %s has room again (%s free)", dir, mebibytes(space.Free)))
		}
	}
}

const (
	versionFile    = "version.json"
	unknownVersion = "of unknown version (" + versionFile + " is missing)"
)

// TemporalVersion is the version of the Temporal server in this program.
const TemporalVersion = headers.ServerVersion

// Linked reports whether this program has a server.
const Linked = true

// VersionError reports that a state directory was written by another version of the
// Temporal server. The server does not migrate SQLite databases.
type VersionError struct {
	// Dir is the state directory.
	Dir string
	// Have describes the version that wrote the directory, Want the one in this program.
	Have, Want string
}

// Error says what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("state directory %s was written by Temporal server %s, this program contains %s: "+
		"finish its jobs with the program that wrote it, or move the directory away to start afresh",
		e.Dir, e.Have, e.Want)
}

// version is the content of the version file.
type version struct {
	// Server is the Temporal server's version.
	Server string `json:"server"`
	// Schema and Visibility are the versions of the two halves of the database.
	Schema     string `json:"schema"`
	Visibility string `json:"visibility"`
}

func thisVersion() version {
	return version{Server: headers.ServerVersion, Schema: sqlite.Version, Visibility: sqlite.VisibilityVersion}
}

func (v version) String() string {
	return fmt.Sprintf("%s (schema %s, %s)", v.Server, v.Schema, v.Visibility)
}

// checkVersion compares the version file of a directory that holds a database with this program.
func checkVersion(dir string) error {
	have, err := readVersion(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &VersionError{Dir: dir, Have: unknownVersion, Want: thisVersion().String()}
	}
	if err != nil {
		return err
	}
	if have != thisVersion() {
		return &VersionError{Dir: dir, Have: have.String(), Want: thisVersion().String()}
	}
	return nil
}

func readVersion(dir string) (version, error) {
	var v version
	data, err := os.ReadFile(filepath.Join(dir, versionFile))
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w", filepath.Join(dir, versionFile), err)
	}
	return v, nil
}

func writeVersion(dir string) error {
	return writeJSON(filepath.Join(dir, versionFile), thisVersion(), true)
}

// writeJSON replaces a file as a whole; durable: and has it on disk. The caller holds the directory.
func writeJSON(path string, value any, durable bool) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	fresh := path + ".new"
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if durable && err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	if durable {
		return syncDir(filepath.Dir(path))
	}
	return nil
}
