package starter_test

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// What is wrong about a page shows before anything is dialled.
func TestUI_Usage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("short", "token\n")
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"ui", "--listen", "0.0.0.0:0"}, "name a file of tokens, or listen on 127.0.0.1 (--token-file FILE)"},
		{[]string{"ui", "--listen", "nowhere"}, "use HOST:PORT"},
		{[]string{"ui", "--token-file", "short"}, "the token is 5 bytes long"},
		{[]string{"ui", "--allow", "all", "--allow", "/data"}, "makes the other roots useless"},
		{[]string{"report", "nightly"}, "no file is named: add -o FILE.html"},
	} {
		require.Contains(t, b.stint(c.args...).exits(starter.ExitUsage).stderr.String(), c.said, "%v", c.args)
	}
}

// The page of 'stint server' reads what jobs have encrypted with the keys of the environment.
func TestServer_PageWithKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.env = append(b.env, "STINT_CODEC_KEY_FILE="+b.keys("keys", "a"))
	b.write("in.txt", numbers(10))
	server := b.start("server")
	server.says("page: ")
	server.says("Temporal server: ")
	b.stint("start", "--pool", "confidential", "--name", "sealed", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	at := regexp.MustCompile(`page: +(http://\S+)`).FindStringSubmatch(server.stderr.String())[1]
	var said string
	eventually(t, "the job on the page", func() bool {
		resp, err := http.Get(at + "/api/v1/jobs")
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		said = string(body)
		return regexp.MustCompile(`"name":"sealed"`).MatchString(said)
	})
	require.Contains(t, said, `"pool":"confidential"`)
	require.Contains(t, said, `"state":"running"`)
	server.signals <- os.Interrupt
	server.exits(starter.ExitOK)
}
