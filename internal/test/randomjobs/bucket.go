package main

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// outages are the troubles of a bucket: it answers 503, or 500, it breaks connections, or it does not answer.
var outages = []string{"refuse", "error", "reset", "hang"}

// outageTime is how long an outage of a bucket lasts.
const outageTime = 3 * time.Second

// bucketName is that of the bucket, of which there is one for each try.
const bucketName = "bucket"

// bucket is an S3 service in this process, with one bucket, that has outages.
type bucket struct {
	objects gofakes3.Backend
	server  *httptest.Server

	mu      sync.Mutex
	trouble string
	until   time.Time
}

func newBucket() (*bucket, error) {
	b := &bucket{objects: s3mem.New()}
	if err := b.objects.CreateBucket(bucketName); err != nil {
		return nil, err
	}
	service := gofakes3.New(b.objects).Server()
	b.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.answers(w, r) {
			service.ServeHTTP(w, r)
		}
	}))
	b.server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of requests that are cancelled
	b.server.Start()
	return b, nil
}

// afflict has an outage begin.
func (b *bucket) afflict(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble, b.until = kind, time.Now().Add(outageTime)
}

// answers reports whether a request is answered as it should be.
func (b *bucket) answers(w http.ResponseWriter, r *http.Request) bool {
	b.mu.Lock()
	kind, left := b.trouble, time.Until(b.until)
	b.mu.Unlock()
	if left <= 0 {
		return true
	}
	switch kind {
	case "refuse":
		http.Error(w, "<Error><Code>ServiceUnavailable</Code></Error>", http.StatusServiceUnavailable)
	case "error":
		http.Error(w, "<Error><Code>InternalError</Code></Error>", http.StatusInternalServerError)
	case "reset":
		panic(http.ErrAbortHandler)
	case "hang":
		select {
		case <-r.Context().Done():
		case <-time.After(left): // this is the fault
		}
		return r.Context().Err() == nil
	}
	return false
}

// at returns the location of a key, as commands take it.
func (b *bucket) at(key string) string {
	const options = "&region=us-east-1&use_path_style=true&anonymous=true"
	return "s3://" + bucketName + "/" + key + "?endpoint=" + b.server.URL + options
}

// put puts a file into the bucket.
func (b *bucket) put(key string, content []byte) error {
	body := strings.NewReader(string(content))
	_, err := b.objects.PutObject(bucketName, key, map[string]string{}, body, body.Size(), nil)
	return err
}

// fetch copies what is in the bucket to a directory.
func (b *bucket) fetch(dir string) error {
	list, err := b.objects.ListBucket(bucketName, nil, gofakes3.ListBucketPage{})
	if err != nil {
		return err
	}
	for _, object := range list.Contents {
		err = errors.Join(err, b.fetchOne(object.Key, filepath.Join(dir, filepath.FromSlash(object.Key))))
	}
	return err
}

func (b *bucket) fetchOne(key, path string) error {
	object, err := b.objects.GetObject(bucketName, key, nil)
	if err != nil {
		return err
	}
	defer object.Contents.Close()
	data, err := io.ReadAll(object.Contents)
	return errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644))
}

// close ends the service.
func (b *bucket) close() {
	b.server.CloseClientConnections()
	b.server.Close()
}
