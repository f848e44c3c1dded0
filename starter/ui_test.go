package starter_test

import (
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
