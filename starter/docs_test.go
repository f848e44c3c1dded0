package starter_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/test/programs"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"
)

// root is the top of the repository.
func root(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("..")
	require.NoError(t, err)
	return path
}

// document reads a file of the repository.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), name))
	require.NoError(t, err)
	return string(text)
}

// section returns the part of a document below a heading, up to the next one of the same level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(text, "\n"+heading+"\n")
	require.True(t, found, heading)
	level, _, _ := strings.Cut(heading, " ")
	below, _, _ := strings.Cut(after, "\n"+level+" ")
	return below
}

// fenced returns the blocks of a language in a document.
func fenced(text, language string) (blocks []string) {
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// clone puts the files into the box that a clone of the repository has, as far as documents use them.
func (b *box) clone() {
	b.t.Helper()
	for _, dir := range []string{"examples", "python"} {
		require.NoError(b.t, os.CopyFS(b.path(dir), os.DirFS(filepath.Join(root(b.t), dir))))
	}
}

// statusWanted finds, in a comment behind a command, the status that it ends with.
var statusWanted = regexp.MustCompile(`exit status (\d+)`)

// script makes a script of shell blocks that ends with the first command that does not end with the status that is
// expected of it.
func script(t *testing.T, blocks []string) string {
	t.Helper()
	text := strings.Join(blocks, "\n")
	file, err := syntax.NewParser(syntax.KeepComments(true), syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n")
	var end uint
	for i, stmt := range file.Stmts {
		begin := end
		end = uint(len(text))
		if i+1 < len(file.Stmts) {
			end = file.Stmts[i+1].Pos().Offset()
		}
		want := "0"
		for _, c := range stmt.Comments {
			if found := statusWanted.FindStringSubmatch(c.Text); found != nil {
				want = found[1]
			}
		}
		line := strings.TrimSpace(text[max(begin, stmt.Pos().Offset()):end])
		shown, err := syntax.Quote(line, syntax.LangBash)
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s\nstatus=$?; [ $status = %s ] || { echo \"exit status $status:\" %s >&2; exit 99; }\n", line, want, shown)
	}
	return b.String()
}

// freePort returns a port of this machine that nobody uses.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	require.NoError(t, err)
	return port
}

// paste runs the shell blocks of a document as somebody would who pastes them at the top of a clone: with the program
// that is built from here, whose server takes a port of its own. Pairs of texts are replaced before.
func (b *box) paste(blocks []string, replace ...string) *process {
	b.t.Helper()
	shell, err := exec.LookPath("bash")
	if err != nil {
		b.t.Skip("there is no bash on this machine")
	}
	path, err := binary()
	require.NoError(b.t, err)
	bin, port := b.t.TempDir(), freePort(b.t)
	wrapper := "#!/bin/sh\n[ \"$1\" != server ] || { shift; set -- server --port " + port + " --ui-port 0 \"$@\"; }\nexec " + path + " \"$@\"\n"
	jobtest.WriteProgram(b.t, filepath.Join(bin, "stint"), wrapper)
	writeTimeout(b.t, bin)
	replace = append(replace, "one:7233", "127.0.0.1:"+port, "8429", freePort(b.t))
	text := strings.NewReplacer(replace...).Replace(strings.Join(blocks, "\n"))
	cmd := exec.Command(shell, "-c", script(b.t, []string{text}))
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), b.mark()}
	return b.spawnCommand(cmd)
}

// writeTimeout makes a program `timeout -s KILL SECONDS COMMAND…` whose time counts from when a job has begun in the
// directory .stint: on a slow machine that may be later than a person would see.
func writeTimeout(t *testing.T, dir string) {
	t.Helper()
	jobtest.WriteProgram(t, filepath.Join(dir, "timeout"), `#!/bin/sh
seconds=$3; shift 3
jobs() { ls .stint/jobs 2> /dev/null | wc -l; }
had=$(jobs)
"$@" & pid=$!
until [ $(jobs) -gt $had ] || ! kill -0 $pid; do sleep 0.05; done
sleep $seconds; kill -KILL $pid; wait $pid
`)
}

// tool skips a test that needs a program which is missing, as that of a person who does not have it would.
func tool(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		programs.Find(t, name)
	}
}
