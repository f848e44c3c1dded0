package store_test

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
)

// uploads returns the service's list of uploads that were begun and not ended.
func uploads(t *testing.T) string {
	t.Helper()
	response, err := http.Get(fakeS3().URL + "/" + testBucket + "?uploads")
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// TestS3Uploads: what has several parts is seen whole or not at all, and given up cleanly.
func TestS3Uploads(t *testing.T) {
	t.Parallel()
	dir := setup(t, kinds[2])
	prefix := strings.TrimPrefix(strings.Split(dir.Location(), "?")[0], "s3://"+testBucket+"/")
	block := make([]byte, 1<<20)
	write := func(ctx context.Context, key string) store.Writer {
		w, err := dir.Create(ctx, key)
		require.NoError(t, err)
		for range 40 {
			_, err := w.Write(block)
			require.NoError(t, err)
		}
		return w
	}
	w := write(t.Context(), "committed")
	require.Contains(t, uploads(t), prefix+"/committed")
	require.NoError(t, w.Commit())
	info, err := dir.Stat(t.Context(), "committed")
	require.NoError(t, err)
	require.EqualValues(t, 40<<20, info.Size)
	for listed, err := range dir.List(t.Context(), "") {
		require.NoError(t, err)
		require.True(t, info.Same(listed), "%+v, %+v", info, listed) // this service gives two times
	}

	w = write(t.Context(), "aborted")
	w.Abort()
	require.NotContains(t, uploads(t), prefix)

	ctx, cancel := context.WithCancel(t.Context())
	w = write(ctx, "cancelled")
	cancel()
	require.ErrorIs(t, w.Commit(), context.Canceled)
	require.NotContains(t, uploads(t), prefix)

	w = write(t.Context(), "run/swept")
	removed, err := dir.Sweep(t.Context(), "run/", nil)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	require.Error(t, w.Commit())
	require.Equal(t, []string{"committed"}, keys(t, dir, ""))
	require.NotContains(t, uploads(t), prefix)
}

func TestS3NoSuchBucket(t *testing.T) {
	t.Parallel()
	dir := open(t, newAccess(t), "s3://no-such-bucket/x?"+s3Query())
	err := dir.Put(t.Context(), "key", nil)
	require.ErrorContains(t, err, "there is no such bucket")
	require.True(t, store.Permanent(err))
	for _, err := range dir.List(t.Context(), "") {
		require.ErrorContains(t, err, "there is no such bucket")
		require.True(t, store.Permanent(err))
	}
}

func TestS3Options(t *testing.T) {
	t.Parallel()
	_, err := newAccess(t).Open(t.Context(), "s3://bucket/x?region=r&colour=red")
	require.ErrorAs(t, err, new(*store.LocationError))
	require.EqualError(t, err, `location "s3://bucket?region=r&colour=red": unknown query parameter "colour"`)
}

// TestS3Environment changes the environment: it cannot run beside other tests.
func TestS3Environment(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	nowhere := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", nowhere)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nowhere)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")

	_, err := newAccess(t).Open(t.Context(), "s3://bucket/x")
	require.ErrorAs(t, err, new(*store.LocationError))
	require.ErrorContains(t, err, "AWS_REGION")

	_, err = newAccess(t).Open(t.Context(), "s3://bucket/x?region=r")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "set AWS_ACCESS_KEY_ID")
	require.True(t, store.Permanent(err))

	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	put(t, open(t, newAccess(t), "s3://"+testBucket+"/signed?region=r&use_path_style=true&endpoint="+fakeS3().URL), "key")
}

// TestS3Faults has a service that answers with one error after another.
func TestS3Faults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code string
		status     int
		permanent  bool
	}{
		{"denied", "AccessDenied", http.StatusForbidden, true},
		{"wrong key", "InvalidAccessKeyId", http.StatusForbidden, true},
		{"wrong region", "PermanentRedirect", http.StatusMovedPermanently, true},
		{"out of service", "ServiceUnavailable", http.StatusServiceUnavailable, false},
		{"old token", "ExpiredToken", http.StatusBadRequest, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, "<Error><Code>"+c.code+"</Code><Message>the message</Message></Error>")
			}))
			t.Cleanup(server.Close)
			dir := open(t, newAccess(t), "s3://bucket/x?region=r&anonymous=true&use_path_style=true&endpoint="+server.URL)
			ctx := t.Context()
			_, err := dir.Get(ctx, "key")
			require.Error(t, err)
			require.Equal(t, c.permanent, store.Permanent(err), "%v", err)
			require.ErrorContains(t, err, "reading s3://bucket/x/key: ")
			require.ErrorContains(t, err, "the message")
			require.NotContains(t, err.Error(), "RequestID")
			if c.status == http.StatusServiceUnavailable {
				return // the driver tries that several times, with pauses
			}
			err = dir.Put(ctx, "key", []byte("data"))
			require.Error(t, err)
			require.Equal(t, c.permanent, store.Permanent(err), "%v", err)
		})
	}
}

// R23: that a host does not answer is said in the words of the network, without the layers above it.
func TestR23_HostOutOfReach(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	dir := open(t, newAccess(t), "s3://bucket/x?region=r&anonymous=true&use_path_style=true&endpoint="+server.URL)
	_, err := dir.Get(t.Context(), "key")
	require.ErrorContains(t, err, "reading s3://bucket/x/key: dial tcp "+strings.TrimPrefix(server.URL, "http://"))
	require.NotContains(t, err.Error(), "operation error")
	require.False(t, store.Permanent(err))
}

// TestS3BrokenConnection: an answer that breaks off is a fault of the network, not of the object.
func TestS3BrokenConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, 500))
	}))
	t.Cleanup(server.Close)
	dir := open(t, newAccess(t), "s3://bucket/x?region=r&anonymous=true&use_path_style=true&endpoint="+server.URL)
	_, err := dir.Get(t.Context(), "key")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.False(t, store.Permanent(err))
	_, err = store.Join(t.Context(), dir, seq([]store.Piece{{Key: "key", Length: 1000}}), setup(t, kinds[1]), "out", store.JoinOptions{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.False(t, store.Permanent(err), "%v", err)
}

func TestClosedAccess(t *testing.T) {
	t.Parallel()
	access := &store.Access{}
	_, err := access.Open(t.Context(), "s3://bucket/x?"+s3Query())
	require.NoError(t, err)
	require.NoError(t, access.Close())
	require.NoError(t, access.Close())
	_, err = access.Open(t.Context(), "s3://bucket/x?"+s3Query())
	require.Error(t, err)
}

// TestS3WithoutConditions: services that ignore conditions, or refuse them, are written to as before, and say so when
// asked.
func TestS3WithoutConditions(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"ignored for uploads": func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				r.Header.Del("If-Match")
			}
			return false
		},
		"wrong for uploads": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || r.Header.Get("If-Match") == "" {
				return false
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<Error><Code>InvalidRequest</Code><Message>what is this</Message></Error>")
			return true
		},
		"ignored": func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
			return false
		},
		"refused": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("If-Match")+r.Header.Get("If-None-Match") == "" {
				return false
			}
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w, "<Error><Code>NotImplemented</Code><Message>no such header</Message></Error>")
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !answer(w, r) {
					fakeS3().Config.Handler.ServeHTTP(w, r)
				}
			}))
			t.Cleanup(server.Close)
			dir := open(t, newAccess(t), "s3://"+testBucket+"/without-"+strings.ReplaceAll(name, " ", "-")+"?region=r&anonymous=true&use_path_style=true&endpoint="+server.URL)
			has, err := store.Conditional(t.Context(), dir, "key")
			require.NoError(t, err)
			require.False(t, has)
			w, err := store.CreateUnchanged(t.Context(), dir, "key")
			require.NoError(t, err)
			put(t, dir, "key")
			require.NoError(t, w.Commit())
			remove, err := store.Removal(t.Context(), dir, "key")
			require.NoError(t, err)
			require.NoError(t, remove(t.Context()))
			require.Empty(t, keys(t, dir, ""))
		})
	}
}

// mayNotList is a service that answers as S3 does to who has no s3:ListBucket: access to what is missing is denied.
func mayNotList(t *testing.T, denied func(r *http.Request) bool) (endpoint string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		fakeS3().Config.Handler.ServeHTTP(answer, r)
		if answer.Code != http.StatusNotFound && !denied(r) {
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
		w.WriteHeader(http.StatusForbidden)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// D9: to who may not list a bucket S3 denies a look at an object that is missing. It is written under the condition
// that it is.
func TestD9_WithoutListBucket(t *testing.T) {
	t.Parallel()
	endpoint := mayNotList(t, func(*http.Request) bool { return false })
	dir := open(t, newAccess(t), "s3://"+testBucket+"/no-list?region=r&anonymous=true&use_path_style=true&endpoint="+endpoint)
	_, err := dir.Get(t.Context(), "key")
	require.ErrorContains(t, err, "if there is no such object")
	begin := func() store.Writer {
		w, err := store.CreateUnchanged(t.Context(), dir, "key")
		require.NoError(t, err)
		_, err = w.Write([]byte("mine"))
		require.NoError(t, err)
		return w
	}
	w := begin()
	put(t, dir, "key")
	replaced := new(store.ReplacedError)
	require.ErrorAs(t, w.Commit(), &replaced, "another one has come meanwhile")
	require.NoError(t, begin().Commit(), "it is seen now")
	require.NoError(t, dir.Delete(t.Context(), "key"))
	require.NoError(t, begin().Commit())
	for range 2 { // there, and missing
		remove, err := store.Removal(t.Context(), dir, "key")
		require.NoError(t, err)
		require.NoError(t, remove(t.Context()))
	}
}

// D9: what is there and may not be looked at is not replaced, and the error says what to do.
func TestD9_HiddenObject(t *testing.T) {
	t.Parallel()
	endpoint := mayNotList(t, func(r *http.Request) bool {
		return r.Method == http.MethodHead || r.Method == http.MethodGet
	})
	dir := open(t, newAccess(t), "s3://"+testBucket+"/hidden?region=r&anonymous=true&use_path_style=true&endpoint="+endpoint)
	write := func() error {
		w, err := store.CreateUnchanged(t.Context(), dir, "key")
		require.NoError(t, err)
		return w.Commit()
	}
	require.NoError(t, write())
	err := write()
	require.ErrorIs(t, err, fs.ErrPermission)
	require.True(t, store.Permanent(err))
	require.ErrorContains(t, err, "writing s3://"+testBucket+"/hidden/key: there is an object that may be neither looked at nor replaced (allow the worker s3:GetObject")
}
