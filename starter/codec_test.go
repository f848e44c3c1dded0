package starter_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/encoding/protojson"
)

// keys writes a file of keys, each of which is made of its ID, and returns its path.
func (b *box) keys(file string, ids ...string) string {
	b.t.Helper()
	text := ""
	for _, id := range ids {
		text += id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(id), 32)[:32]) + "\n"
	}
	return b.write(file, text)
}

// TestCodec_EveryCommand: all commands work behind a codec, and Temporal stores nothing that can be read.
// (X3: every command works with a payload codec.)
func TestCodec_EveryCommand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server, err := devserver.Start(t.Context(), devserver.Options{Dir: b.path("temporal"), Logger: silent})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	b.env = append(b.env, "TEMPORAL_ADDRESS="+server.Address(), "STINT_CODEC_KEY_FILE="+b.keys("keys", "a", "b"))
	b.write("confidential.txt", numbers(40))
	b.refuse("7$")
	worker := b.worker("p", "--exec", b.refusing(), "--hook", "prepare=true")
	start := []string{"start", "--pool", "p", "confidential.txt", "--batch-items", "10", "--attempts", "1"}
	with := func(more ...string) []string { return append(slices.Clip(start), more...) }

	b.stint(with("--name", "plain", "-o", "out.txt", "--init", "prepare", "--wait")...).exits(starter.ExitSomeFailed)
	var report job.Report
	b.reads(&report, "status", "plain", "--json")
	require.EqualValues(t, 36, report.OK)
	require.Contains(t, b.stint("status", "plain").exits(starter.ExitOK).stdout.String(), "first failed item")
	require.Regexp(t, `plain +p +completed`, b.stint("list").exits(starter.ExitOK).stdout.String())
	require.Equal(t, 36, strings.Count(b.stint("results", "plain").exits(starter.ExitOK).stdout.String(), "\n"))
	b.refuse()
	b.stint("redrive", "plain", "--wait").exits(starter.ExitOK)
	require.Equal(t, numbers(40), b.read("out.txt"))

	gated := b.worker("gated", "--exec", b.gated(), "--slots", "1")
	pool := []string{"start", "--pool", "gated", "confidential.txt", "--batch-items", "10", "--grace", "0s"}
	b.stint(append(pool, "--name", "going", "-o", "out2.txt")...).exits(starter.ExitOK)
	eventually(t, "a call", func() bool { return b.lines("started") > 0 })
	require.Contains(t, b.stint("status", "going").exits(starter.ExitOK).stdout.String(), "oldest running")
	require.Contains(t, b.stint("workers").exits(starter.ExitOK).stdout.String(), "gated ")
	require.Contains(t, b.stint("set", "going", "window=3").exits(starter.ExitOK).stdout.String(), "3")
	b.stint("stop", "going", "--reason", "confidential reason", "--wait").exits(starter.ExitOK)
	b.reads(&report, "status", "going", "--json")
	require.Equal(t, "confidential reason", report.Reason)
	stopped := b.stint("stop", "--all").exits(starter.ExitOK)
	require.Equal(t, "0\n", stopped.stdout.String())
	b.stint("resume", "going").exits(starter.ExitOK)
	eventually(t, "the list has it", func() bool {
		return regexp.MustCompile(`going +gated +running`).MatchString(b.stint("list").exits(starter.ExitOK).stdout.String())
	})
	stopped = b.stint("stop", "--pool", "gated", "--wait").exits(starter.ExitOK)
	require.Equal(t, "1\n", stopped.stdout.String())
	resumed := b.start("resume", "going", "--wait")
	b.open()
	resumed.exits(starter.ExitOK)
	require.Equal(t, numbers(40), b.read("out2.txt"))
	b.stint("watch", "going").exits(starter.ExitOK)

	b.stint(with("--name", "nightly", "-o", "out-{time}.txt", "--cron", "0 3 * * *")...).exits(starter.ExitOK)
	require.Regexp(t, `nightly +0 3 \* \* \*`, b.stint("schedule", "list").exits(starter.ExitOK).stdout.String())
	b.stint("schedule", "trigger", "nightly").exits(starter.ExitOK)
	eventually(t, "the run's output", func() bool {
		found, _ := filepath.Glob(b.path("out-*.txt"))
		return len(found) > 0
	})
	b.stint("schedule", "delete", "nightly").exits(starter.ExitOK)

	env := b.env
	b.env = append(b.env, "STINT_CODEC_KEY_FILE=")
	plain := b.stint("status", "plain")
	require.Equal(t, starter.ExitFailed, plain.code)
	require.Contains(t, plain.stderr.String(), "give the file of the keys with --codec-key-file")
	b.env = env

	// Another key encrypts from now on; what was written before is still read.
	b.env = append(b.env, "STINT_CODEC_KEY_FILE="+b.keys("turned", "b", "a"))
	b.reads(&report, "status", "plain", "--json")
	require.EqualValues(t, 40, report.OK)
	b.stint(with("--name", "turned", "-o", "out3.txt", "--wait")...).exits(starter.ExitOK)

	for _, w := range []*command{worker, gated} {
		w.signals <- syscall.SIGTERM
		w.exits(starter.ExitOK)
	}
	server.Stop()
	require.NoError(t, filepath.WalkDir(b.path("temporal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(data), "confidential", path)
		return nil
	}))
}

// TestCodec_WorkersWithoutKeys: workers that lack the keys fail no job. What they cannot read waits for others.
func TestCodec_WorkersWithoutKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(10))
	b.cluster()
	_, address, _ := strings.Cut(b.env[len(b.env)-1], "TEMPORAL_ADDRESS=")
	b.env = append(b.env, "STINT_CODEC_KEY_FILE="+b.keys("keys", "a"))
	c, err := sdkclient.DialContext(t.Context(), sdkclient.Options{HostPort: address, Logger: sdklog.NewStructuredLogger(silent)})
	require.NoError(t, err)
	t.Cleanup(c.Close)

	keyless := b.spawnCommand(goWorker(t, "slow", "")())
	keyless.says("serving pool p")
	b.spawn("start", "--pool", "p", "--name", "j", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	eventually(t, "a failed workflow task", func() bool {
		events := c.GetWorkflowHistory(t.Context(), "j", "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			require.NoError(t, err)
			if failed := e.GetWorkflowTaskFailedEventAttributes(); failed != nil {
				require.Contains(t, failed.GetFailure().String(), "cannot read its input")
				return true
			}
		}
		return false
	})
	keyless.signal(syscall.SIGTERM)
	keyless.exits(starter.ExitOK)

	b.spawn("worker", "--allow", b.dir, "--pool", "other", "--exec", "cat").says("serving pool other")
	keyless = b.spawnCommand(goWorker(t, "slow", "", noJobs+"=1")())
	keyless.says("serving pool p")
	eventually(t, "the reason for the wait", func() bool {
		status := b.spawn("status", "j")
		status.await()
		return strings.Contains(status.stdout.String(), "a worker cannot read its input; start all workers with the keys of the codec")
	})
	keyless.signal(syscall.SIGTERM)
	keyless.exits(starter.ExitOK)
	b.spawn("worker", "--allow", b.dir, "--pool", "p", "--exec", "cat").says("serving pool p")
	b.spawn("watch", "j").exits(starter.ExitOK)
	requireSame(t, numbers(10), b.read("out.txt"))
}

func TestCodec_Keys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.refused(starter.ExitUsage, []string{"list", "--codec-key-file", "nowhere"}, "codec's keys", "nowhere", "no such file")
	b.write("keys", "a Zm9v\n")
	b.refused(starter.ExitUsage, []string{"list", "--codec-key-file", "keys"}, "keys, line 1", "not 32 bytes", "openssl rand")
	b.refused(starter.ExitUsage, []string{"codec-server"}, "no keys given", "--codec-key-file", "STINT_CODEC_KEY_FILE")
}

var endpoint = regexp.MustCompile(`http://[0-9.:]+`)

// TestCodecServer: the web UI reads what jobs have encrypted, and no other page does.
func TestCodecServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const ui = "http://localhost:8233"
	c := b.start("codec-server", "--codec-key-file", b.keys("keys", "a"), "--port", "0", "--origin", ui)
	c.says("codec endpoint: ")
	url := endpoint.FindString(c.stderr.String())
	codec, err := jobs.ReadCodec(b.path("keys"))
	require.NoError(t, err)
	payloads, err := codec.DataConverter().ToPayloads("the secret")
	require.NoError(t, err)
	body, err := protojson.Marshal(payloads)
	require.NoError(t, err)
	ask := func(method, path, origin, host string) (int, string, http.Header) {
		request, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader(body))
		require.NoError(t, err)
		request.Host = host
		if origin != "" {
			request.Header.Set("Origin", origin)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text), response.Header
	}
	secret := base64.StdEncoding.EncodeToString([]byte(`"the secret"`))
	code, text, header := ask(http.MethodPost, "/decode", ui, "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, secret)
	require.Equal(t, ui, header.Get("Access-Control-Allow-Origin"))
	code, _, header = ask(http.MethodOptions, "/decode", ui, "")
	require.Equal(t, http.StatusNoContent, code)
	require.Contains(t, header.Get("Access-Control-Allow-Headers"), "X-Namespace")
	code, text, _ = ask(http.MethodPost, "/decode", "", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, secret)
	for _, other := range [][2]string{{"http://evil.example", ""}, {"null", ""}, {"", "evil.example"}} {
		code, text, header = ask(http.MethodPost, "/decode", other[0], other[1])
		require.Equal(t, http.StatusForbidden, code)
		require.NotContains(t, text, secret)
		require.Empty(t, header.Get("Access-Control-Allow-Origin"))
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	c.signals <- syscall.SIGTERM
	c.exits(starter.ExitOK)
}
