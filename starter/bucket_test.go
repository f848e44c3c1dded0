package starter_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// bucket is an S3 service with one empty bucket.
type bucket struct {
	t   *testing.T
	url string
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	return newBucketBehind(t, func(service http.Handler) http.Handler { return service })
}

// newBucketBehind is newBucket, with something before the service.
func newBucketBehind(t *testing.T, before func(service http.Handler) http.Handler) *bucket {
	t.Helper()
	server := httptest.NewUnstartedServer(before(jobtest.FakeS3("bucket")))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of requests that are cancelled
	server.Start()
	t.Cleanup(server.Close)
	return &bucket{t: t, url: server.URL}
}

// at is the location of a key, as commands take it.
func (s *bucket) at(key string) string {
	return "s3://bucket/" + key + "?endpoint=" + s.url + "&region=us-east-1&use_path_style=true&anonymous=true"
}

func (s *bucket) do(method, key, body string) (status int, content string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/bucket/"+key, strings.NewReader(body))
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, string(data)
}

func (s *bucket) put(key, content string) {
	s.t.Helper()
	status, body := s.do(http.MethodPut, key, content)
	require.Equal(s.t, http.StatusOK, status, body)
}

func (s *bucket) get(key string) string {
	s.t.Helper()
	status, body := s.do(http.MethodGet, key, "")
	require.Equal(s.t, http.StatusOK, status, body)
	return body
}

func TestBucket_RunFromAndToObjects(t *testing.T) {
	t.Parallel()
	b, s := setup(t), newBucket(t)
	first, second := records(1500), records(700)
	s.put("in/a.jsonl", first)
	s.put("in/b.jsonl.gz", gzipped(t, second))
	s.put("in/c.csv", "not,this\n1,2\n")
	b.stint("run", "--exec", "tr a-z A-Z", s.at("in/*.jsonl*"), "-o", s.at("out/result.jsonl"), "--batch-items", "200", "--report", s.at("report.json")).exits(starter.ExitOK)
	requireSame(t, upper(t, first+second), s.get("out/result.jsonl"))
	require.Contains(t, s.get("report.json"), `"state": "completed"`)
}

func TestBucket_PartsUnderAPrefix(t *testing.T) {
	t.Parallel()
	b, s := setup(t), newBucket(t)
	input := records(2000)
	b.write("in.jsonl", input)
	b.stint("run", "--exec", "tr a-z A-Z", "in.jsonl", "-o", s.at("out/"), "--batch-items", "300").exits(starter.ExitOK)
	var all strings.Builder
	dec := json.NewDecoder(strings.NewReader(s.get("out/manifest.jsonl")))
	for dec.More() {
		var part struct{ Part, Checksum string }
		require.NoError(t, dec.Decode(&part))
		text := s.get("out/" + part.Part)
		require.Equal(t, sum(text), part.Checksum)
		all.WriteString(text)
	}
	requireSame(t, upper(t, input), all.String())
}

func TestBucket_OnACluster(t *testing.T) {
	t.Parallel()
	b, s := setup(t), newBucket(t)
	b.server()
	s.put("in.txt", numbers(500)+"bad\n")
	b.worker("p", "--exec", "sed /bad/d", "--allow", s.at(""))
	b.stint("start", "--pool", "p", "--name", "one", s.at("in.txt"), "-o", s.at("out.txt"), "--backoff", "1ms", "--wait").exits(starter.ExitSomeFailed)
	requireSame(t, numbers(500), s.get("out.txt"))
	require.Contains(t, s.get("out.txt.errors.jsonl"), `"item":500`)
	requireSame(t, numbers(500), b.stint("results", "one").exits(starter.ExitOK).stdout.String())

	denied := b.stint("start", "--pool", "p", "--name", "two", b.write("in.txt", "a\n"), "-o", s.at("two.txt"), "--wait").exits(starter.ExitFailed)
	require.Contains(t, denied.stderr.String(), b.path("in.txt")+" is outside what may be reached here")
}

// TestBucket_NothingElseIsSaid: the logs of the libraries underneath are not shown.
func TestBucket_NothingElseIsSaid(t *testing.T) {
	t.Parallel()
	b, s := setup(t), newBucket(t)
	s.put("in.txt", numbers(100))
	p := b.spawn("run", "--exec", "cat", s.at("in.txt"), "-o", s.at("out.txt"), "-q").exits(starter.ExitOK)
	require.Empty(t, p.stderr.String())
}

func TestBucket_BadLocations(t *testing.T) {
	t.Parallel()
	s := newBucket(t)
	missing := strings.Replace(s.at("in.txt"), "bucket", "no-such-bucket", 1)
	for _, c := range []struct {
		name, input, output string
		says                []string
	}{
		{"no such object", s.at("missing.txt"), "out.txt", []string{"s3://bucket/missing.txt"}},
		{"no such bucket", missing, "out.txt", []string{"s3://no-such-bucket/in.txt", "there is no such object"}},
		{"no such bucket for the output", "in.txt", strings.Replace(s.at("out.txt"), "bucket", "no-such-bucket", 1), []string{"s3://no-such-bucket", "there is no such bucket"}},
		{"nothing matches", s.at("in/*.jsonl"), "out.txt", []string{"s3://bucket/in/*.jsonl", "matches no file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", "a\n")
			b.refused(starter.ExitFailed, []string{"run", "--exec", "cat", c.input, "-o", c.output}, c.says...)
		})
	}
}
