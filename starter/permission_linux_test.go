package starter_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// nobody is a user without rights, for tests that run as root, to whom everything is permitted.
const nobody = 65534

// spawnUnprivileged starts the stint program as a user to whom the box's directory belongs, and
// who has no other rights.
func (b *box) spawnUnprivileged(args ...string) *process {
	b.t.Helper()
	path, err := binary()
	require.NoError(b.t, err)
	cmd := exec.Command(path, args...)
	if os.Getuid() == 0 {
		require.NoError(b.t, os.Chmod(filepath.Dir(b.dir), 0o755))
		require.NoError(b.t, os.Chown(b.dir, nobody, nobody))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return b.spawnCommand(cmd)
}

func TestBadInput_Permissions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, taken string // what nobody may use
		mode        os.FileMode
		args        []string
		says        []string
	}{
		{"input unreadable", "in.txt", 0, []string{"in.txt", "-o", "out.txt"}, []string{"/in.txt: permission denied", "give the worker's user access"}},
		{"directory of the input closed", "dir", 0, []string{"dir/in.txt", "-o", "out.txt"}, []string{"/dir/in.txt: permission denied", "give the worker's user access"}},
		{"directory as input unreadable", "dir", 0, []string{"dir", "-o", "out.txt"}, []string{"/dir: permission denied", "give the worker's user access"}},
		{"output directory read-only", "dir", 0o555, []string{"in.txt", "-o", "dir/out.txt"}, []string{"/dir/out.txt", "permission denied", "give the worker's user access"}},
		{"output prefix read-only", "dir", 0o555, []string{"in.txt", "-o", "dir/out/"}, []string{"/dir/out", "permission denied", "give the worker's user access"}},
		{"state cannot be kept", "dir", 0o555, []string{"in.txt", "-o", "out.txt", "--state", "dir/state"}, []string{"/dir/state", "permission denied"}},
		{"a job file unreadable", "job.yaml", 0, []string{"-f", "job.yaml", "in.txt"}, []string{"job.yaml", "permission denied"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := brutal(t)
			b.write("in.txt", "a\n")
			b.write("dir/in.txt", "a\n")
			b.write("job.yaml", "output: out.txt\n")
			require.NoError(t, os.Chmod(b.path(c.taken), c.mode))
			t.Cleanup(func() { require.NoError(t, os.Chmod(b.path(c.taken), 0o755)) })
			p := b.spawnUnprivileged(append([]string{"run", "--exec", "cat"}, c.args...)...)
			p.await()
			require.Contains(t, []int{starter.ExitFailed, starter.ExitUsage}, p.cmd.ProcessState.ExitCode(), p.stderr.String())
			for _, text := range c.says {
				require.Contains(t, p.stderr.String(), text)
			}
			require.NotContains(t, p.stderr.String(), "level=")
			b.requireNoOutput()
			require.NoFileExists(t, b.path("dir/out.txt"))
		})
	}
}

// inNamespace runs a shell script, in which $1 is the stint program, where it may mount file
// systems that nobody else sees.
func (b *box) inNamespace(script string) *process {
	b.t.Helper()
	path, err := binary()
	require.NoError(b.t, err)
	flags := "-m"
	if os.Getuid() != 0 {
		flags = "-Urm"
	}
	if err := exec.CommandContext(b.t.Context(), "unshare", flags, "mount", "-t", "tmpfs", "tmpfs", b.dir).Run(); err != nil {
		b.t.Skip("no file system can be mounted here")
	}
	return b.spawnCommand(exec.Command("unshare", flags, "sh", "-euc", script, "sh", path))
}

// TestBadInput_FullDisk: the output is not there in part; with room for it, the same command goes
// on and runs nothing again.
func TestBadInput_FullDisk(t *testing.T) {
	t.Parallel()
	b := brutal(t)
	b.write("in.txt", numbers(100_000))
	require.NoError(t, os.Mkdir(b.path("full"), 0o755))
	filter := b.script("filter", `echo run >> $BOX/witness; exec cat`)
	p := b.inNamespace(`
mount -t tmpfs -o size=256k tmpfs full
code=0; "$1" run --exec ` + filter + ` in.txt -o full/out.txt || code=$?
test $code = 1
test ! -e full/out.txt
wc -l < witness > before
mount -o remount,size=16m full
"$1" run --exec ` + filter + ` in.txt -o full/out.txt
cmp in.txt full/out.txt
wc -l < witness | cmp - before
`)
	p.exits(0)
	require.Contains(t, p.stderr.String(), b.path("full/out.txt"))
	require.Contains(t, p.stderr.String(), "no space left on device (free some space there, then resume)")
	require.Contains(t, p.stderr.String(), "the same command goes on")
}

func TestBadInput_ReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	b := brutal(t)
	b.write("in.txt", "a\n")
	require.NoError(t, os.Mkdir(b.path("full"), 0o755))
	p := b.inNamespace(`
mount -t tmpfs -o ro tmpfs full
code=0; "$1" run --exec cat in.txt -o full/out.txt || code=$?
test $code = 1
`)
	p.exits(0)
	require.Contains(t, p.stderr.String(), b.path("full/out.txt"))
	require.Contains(t, p.stderr.String(), "read-only file system (mount it writable, or name another place)")
}

// TestBadInput_FullStore: the parts have no room.
func TestBadInput_FullStore(t *testing.T) {
	t.Parallel()
	b := brutal(t)
	b.cluster()
	b.write("in.txt", numbers(100_000))
	require.NoError(t, os.Mkdir(b.path("full"), 0o755))
	p := b.inNamespace(`
mount -t tmpfs -o size=256k tmpfs full
"$1" worker --pool p --exec cat & worker=$!
code=0; "$1" start --pool p --name one in.txt -o full/out.txt --wait --grace 5s || code=$?
test $code = 1
test ! -e full/out.txt
kill $worker
wait $worker
`)
	p.exits(0)
	require.Contains(t, p.stderr.String(), b.path("full/out.txt.stint"))
	require.Contains(t, p.stderr.String(), "no space left on device (free some space there, then resume)")
}
