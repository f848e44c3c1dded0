package store_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
)

// faulty is the S3 service behind a network that fails. answer may answer a GET of an object instead of the
// service, or return false; body is what the service would answer.
type faulty struct {
	*httptest.Server
	mu   sync.Mutex
	gets int
}

func newFaulty(t *testing.T, answer func(get int, body []byte, w http.ResponseWriter, r *http.Request) bool) *faulty {
	t.Helper()
	f := &faulty{}
	service := fakeS3().Config.Handler
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Range") == "" && r.URL.RawQuery != "" && r.URL.Query().Has("list-type") {
			service.ServeHTTP(w, r)
			return
		}
		f.mu.Lock()
		f.gets++
		get := f.gets
		f.mu.Unlock()
		kept := httptest.NewRecorder()
		service.ServeHTTP(kept, r)
		maps.Copy(w.Header(), kept.Header())
		if !answer(get, kept.Body.Bytes(), w, r) {
			w.WriteHeader(kept.Code)
			_, _ = w.Write(kept.Body.Bytes())
		}
	}))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.Start()
	t.Cleanup(f.Close)
	return f
}

// object puts an object of so many bytes into the service, and returns them and its URL behind the network.
func (f *faulty) object(t *testing.T, size int) (url string, data []byte) {
	t.Helper()
	data = make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	key := t.Name() + "/object"
	require.NoError(t, open(t, newAccess(t), "s3://"+testBucket+"?"+s3Query()).Put(t.Context(), key, data))
	return "s3://" + testBucket + "/" + key + "?region=us-east-1&anonymous=true&use_path_style=true&endpoint=" + f.URL, data
}

// part sends the beginning of a body, and drops the connection.
func part(w http.ResponseWriter, code int, body []byte) {
	w.WriteHeader(code)
	_, _ = w.Write(body)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// codeOf is what the service answers a request for a range, or for all.
func codeOf(r *http.Request) int {
	if r.Header.Get("Range") != "" {
		return http.StatusPartialContent
	}
	return http.StatusOK
}

func read(t *testing.T, url string, offset, length int64) ([]byte, error) {
	t.Helper()
	r, err := newAccess(t).OpenInput(t.Context(), url, offset, length)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	return io.ReadAll(r)
}

// A connection that is dropped costs only itself: reading goes on where it was.
func TestS3_DroppedConnectionIsResumed(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, func(get int, body []byte, w http.ResponseWriter, r *http.Request) bool {
		if get%2 == 1 && len(body) > 100_000 {
			part(w, codeOf(r), body[:70_000])
		}
		return false
	})
	url, data := f.object(t, 1<<20)
	for _, test := range []struct{ offset, length int64 }{{0, -1}, {1000, -1}, {5, 900_000}} {
		want := data[test.offset:]
		if test.length >= 0 {
			want = want[:test.length]
		}
		got, err := read(t, url, test.offset, test.length)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	}
}

// A network that stays away is an error in the end, and one that may pass.
func TestS3_ResumingHasALimit(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, func(get int, body []byte, w http.ResponseWriter, r *http.Request) bool {
		if get > 1 {
			panic(http.ErrAbortHandler)
		}
		part(w, codeOf(r), body[:1000])
		return true
	})
	url, data := f.object(t, 1<<20)
	got, err := read(t, url, 0, -1)
	require.Error(t, err)
	require.False(t, store.Permanent(err))
	require.True(t, bytes.HasPrefix(data, got))
}

// What was replaced in the middle of reading is not continued.
func TestS3_ReplacedWhileRead(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, func(get int, body []byte, w http.ResponseWriter, r *http.Request) bool {
		if get == 1 {
			dir := open(t, newAccess(t), "s3://"+testBucket+"?"+s3Query())
			require.NoError(t, dir.Put(t.Context(), t.Name()+"/object", []byte("shorter")))
			part(w, codeOf(r), body[:1000])
		}
		return false
	})
	url, _ := f.object(t, 1<<20)
	_, err := read(t, url, 0, -1)
	require.Error(t, err)
	require.False(t, store.Permanent(err))
}

// A body that hangs in the middle, and an answer that does not come, are dropped connections: reading goes on.
func TestS3_StalledReadEnds(t *testing.T) {
	t.Parallel()
	readWith := func(patience time.Duration) error {
		f := newFaulty(t, func(get int, body []byte, w http.ResponseWriter, r *http.Request) bool {
			switch get {
			case 1:
				w.WriteHeader(codeOf(r))
				_, _ = w.Write(body[:70_000])
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			case 2:
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			}
			return false
		})
		url, data := f.object(t, 1<<20)
		access := newAccess(t)
		access.Patience = patience
		r, err := access.OpenInput(t.Context(), url, 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		if err == nil {
			require.True(t, bytes.Equal(data, got))
		}
		return err
	}
	err := readWith(200 * time.Millisecond)
	for _, patience := range []time.Duration{2 * time.Second, 20 * time.Second} { // a busy machine's answers take longer
		if err != nil {
			err = readWith(patience)
		}
	}
	require.NoError(t, err)
}

// A body that hangs is noticed although another one moves, from the same host: each has a connection of its own, also
// where the service speaks HTTP/2. It changes the environment: it cannot run beside other tests.
func TestS3_StalledReadBesideAnother(t *testing.T) {
	var speaks atomic.Int64
	moves := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		speaks.Store(int64(r.ProtoMajor))
		w.Header().Set("Content-Length", "1000000000")
		w.WriteHeader(http.StatusOK)
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		for once := sync.OnceFunc(func() { close(moves) }); ; {
			if _, err := w.Write([]byte("x")); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			if !strings.HasSuffix(r.URL.Path, "/moves") {
				<-r.Context().Done()
				return
			}
			once()
			select {
			case <-ticks.C:
			case <-r.Context().Done():
				return
			}
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	require.NoError(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("AWS_CA_BUNDLE", roots)
	access := newAccess(t)
	access.Patience = 300 * time.Millisecond
	dir := open(t, access, "s3://bucket/x?region=r&anonymous=true&use_path_style=true&endpoint="+server.URL)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	moving, over := context.WithCancel(ctx)
	defer over()
	all.Go(func() { _, _ = dir.Get(moving, "moves") })
	select {
	case <-moves:
	case <-ctx.Done():
		require.FailNow(t, "nothing is read")
	}
	_, err := dir.Get(ctx, "hangs")
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it ends by itself")
	require.False(t, store.Permanent(err), "%v", err)
	require.EqualValues(t, 1, speaks.Load())
}

// A write to a service that stops reading, or does not answer, ends with an error that may pass.
func TestS3_StalledWriteEnds(t *testing.T) {
	t.Parallel()
	for _, readFirst := range []bool{false, true} {
		over := make(chan struct{})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if readFirst {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			<-over
		}))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.Start()
		t.Cleanup(func() { close(over); server.Close() })
		access := newAccess(t)
		access.Patience = 100 * time.Millisecond
		dir := open(t, access, "s3://bucket/x?region=r&anonymous=true&use_path_style=true&endpoint="+server.URL)
		ended := make(chan error, 1)
		go func() { ended <- dir.Put(t.Context(), "key", make([]byte, 4<<20)) }()
		select {
		case err := <-ended:
			require.Error(t, err)
			require.False(t, store.Permanent(err))
		case <-time.After(time.Minute):
			require.FailNow(t, "it hangs")
		}
	}
}
