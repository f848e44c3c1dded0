package store_test

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
)

const testBucket = "bucket"

// fakeS3 is one S3 service for all tests, on the loopback interface.
var fakeS3 = sync.OnceValue(func() *httptest.Server {
	server := httptest.NewUnstartedServer(jobtest.FakeS3(testBucket))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of requests that are cancelled
	server.Start()
	return server
})

func s3Query() string {
	return "region=us-east-1&anonymous=true&use_path_style=true&endpoint=" + fakeS3().URL
}

func TestMain(m *testing.M) {
	code := m.Run()
	fakeS3().Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var lastPrefix atomic.Int64

// A kind makes empty places of one kind of store.
type kind struct {
	name  string
	local bool
	place func(t testing.TB) string // a location that nothing else uses
}

var kinds = []kind{
	{name: "local", local: true, place: func(t testing.TB) string { return filepath.Join(t.TempDir(), "dir") }},
	{name: "mem", place: func(t testing.TB) string {
		return fmt.Sprintf("mem://%s/prefix-%d", testBucket, lastPrefix.Add(1))
	}},
	{name: "s3", place: func(t testing.TB) string {
		return fmt.Sprintf("s3://%s/some/prefix-%d?%s", testBucket, lastPrefix.Add(1), s3Query())
	}},
}

// eachKind runs a test over every kind of store.
func eachKind(t *testing.T, test func(t *testing.T, k kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

func newAccess(t testing.TB, allow ...string) *store.Access {
	t.Helper()
	access := &store.Access{Allow: allow}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	return access
}

// setup opens an empty Dir of a kind.
func setup(t testing.TB, k kind) store.Dir {
	t.Helper()
	return open(t, newAccess(t), k.place(t))
}

func open(t testing.TB, access *store.Access, location string) store.Dir {
	t.Helper()
	dir, err := access.Open(t.Context(), location)
	require.NoError(t, err)
	return dir
}

func put(t testing.TB, dir store.Dir, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.NoError(t, dir.Put(t.Context(), key, []byte("content of "+key)))
	}
}

// keys lists the keys below prefix.
func keys(t testing.TB, dir store.Dir, prefix string) []string {
	t.Helper()
	found := []string{}
	for info, err := range dir.List(t.Context(), prefix) {
		require.NoError(t, err)
		found = append(found, info.Key)
	}
	return found
}

// under adds a name to a location that may have a query.
func under(location, name string) string {
	rest, query, ok := strings.Cut(location, "?")
	if ok {
		query = "?" + query
	}
	return rest + "/" + name + query
}

// files returns the names of all files below a local directory, locks and temporary ones too.
func files(t testing.TB, dir string) []string {
	t.Helper()
	names := []string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	return names
}
