package jobtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// FakeS3 returns a service like S3 that keeps a bucket in memory.
func FakeS3(bucket string) http.Handler {
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		panic(err) // its name is not one of a bucket
	}
	return &fakeS3{objects: gofakes3.New(backend).Server()}
}

// fakeS3 adds conditions of the end of an upload in parts to those of a put.
type fakeS3 struct {
	objects http.Handler
	writes  sync.Mutex // of whole objects
}

func (s *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	upload := r.URL.Query().Has("uploadId")
	if r.Method == http.MethodPut && !upload || r.Method == http.MethodDelete || r.Method == http.MethodPost && upload {
		s.writes.Lock()
		defer s.writes.Unlock()
	}
	if r.Method == http.MethodPost && upload && !s.holds(r) {
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = io.WriteString(w, "<Error><Code>PreconditionFailed</Code><Message>a condition did not hold</Message></Error>")
		return
	}
	s.objects.ServeHTTP(w, r)
}

// holds reports whether the object that a request writes is what the request's condition says.
func (s *fakeS3) holds(r *http.Request) bool {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if match+none == "" {
		return true
	}
	look := r.Clone(r.Context())
	look.Method, look.Body, look.URL.RawQuery, look.Header = http.MethodHead, http.NoBody, "", http.Header{}
	is := httptest.NewRecorder()
	s.objects.ServeHTTP(is, look)
	there := is.Code == http.StatusOK
	return match != "" && there && is.Header().Get("ETag") == match || none == "*" && !there
}
