package starter_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
			b := setup(t)
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

// TestD26_UserWithoutAnEntry: a user who is not in passwd, without USER and HOME, as containers have them.
func TestD26_UserWithoutAnEntry(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	const unknown = 1_234_567
	b := setup(t)
	b.env = slices.DeleteFunc(b.env, func(v string) bool { return strings.HasPrefix(v, "HOME=") })
	b.write("in.txt", "a\n")
	require.NoError(t, os.Chmod(filepath.Dir(b.dir), 0o755))
	require.NoError(t, os.Chown(b.dir, unknown, unknown))
	path, err := binary()
	require.NoError(t, err)
	cmd := exec.Command(path, "run", "--exec", "tr a-z A-Z", "in.txt", "-o", "out.txt")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unknown, Gid: unknown}}
	b.spawnCommand(cmd).exits(starter.ExitOK)
	require.Equal(t, "A\n", b.read("out.txt"))
}

// inNamespace runs a shell script, in which $1 is the stint program, where it may mount file
// systems that nobody else sees.
func (b *box) inNamespace(script string) *process {
	b.t.Helper()
	path, err := binary()
	require.NoError(b.t, err)
	unshare, _ := b.namespace()
	return b.spawnCommand(exec.Command(unshare[0], append(unshare[1:], "sh", "-euc", script, "sh", path)...))
}

// namespace returns the words before a command that has file systems of its own, and those before one that joins it,
// without its pid. If none can be mounted here, the test is skipped.
func (b *box) namespace() (unshare, enter []string) {
	b.t.Helper()
	unshare, enter = []string{"unshare", "-m"}, []string{"nsenter", "-m", "-t"}
	if os.Getuid() != 0 {
		unshare, enter = []string{"unshare", "-Urm"}, []string{"nsenter", "-U", "--preserve-credentials", "-m", "-t"}
	}
	if err := exec.CommandContext(b.t.Context(), unshare[0], append(unshare[1:], "mount", "-t", "tmpfs", "tmpfs", b.dir)...).Run(); err != nil {
		b.t.Skip("no file system can be mounted here")
	}
	return unshare, enter
}

// TestBadInput_FullDisk: no part of the output is visible, and it is said which disk is full; with room for it the job
// goes on and runs nothing again.
func TestBadInput_FullDisk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100_000))
	require.NoError(t, os.Mkdir(b.path("full"), 0o755))
	filter := b.script("filter", `echo run >> $BOX/witness; exec cat`)
	p := b.inNamespace(`
mount -t tmpfs -o size=256k tmpfs full
"$1" run --exec ` + filter + ` in.txt -o full/out.txt 2> said & run=$!
until grep -q 'no space left on device' said; do kill -0 $run; sleep 0.1; done
test ! -e full/out.txt
wc -l < witness > before
mount -o remount,size=16m tmpfs full
wait $run
cat said >&2
cmp in.txt full/out.txt
wc -l < witness | cmp - before
`)
	p.exits(0)
	require.Contains(t, p.stderr.String(), b.path("full/out.txt"))
	require.Contains(t, p.stderr.String(), "no space left on device (free some space on the disk at "+b.path("full")+", and the job continues)")
}

// TestBadInput_FullState: a state directory without room is said at once, and one that fills up while the job runs
// as soon as it does; then the job goes on.
func TestBadInput_FullState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	require.NoError(t, os.Mkdir(b.path("full"), 0o755))
	filter := b.script("filter", `touch $BOX/runs; until test -e $BOX/go; do sleep 0.1; done; exec cat`)
	p := b.inNamespace(`
await() { until "$@" 2> /dev/null; do kill -0 $run; sleep 0.1; done; }
fill() { mount -o remount,size=$(df -k --output=used full | tail -n 1 | tr -d ' ')k tmpfs full; } # at once, unless it has grown meanwhile
mount -t tmpfs -o size=8m tmpfs full
code=0; "$1" run --state full/state --exec cat in.txt -o out.txt || code=$?
test $code = 1
mount -o remount,size=64m tmpfs full
"$1" run --state full/state --exec ` + filter + ` in.txt -o out.txt 2> said & run=$!
await test -e runs
await fill
await grep -q 'is full' said
mount -o remount,size=64m tmpfs full
await grep -q 'has room again' said
touch go
wait $run
cat said >&2
cmp in.txt out.txt
`)
	p.exits(0)
	require.Contains(t, p.stderr.String(), "mounted at "+b.path("full")+", has 8.0 MiB free and at least 32.0 MiB are needed")
	require.Regexp(t, "mounted at "+regexp.QuoteMeta(b.path("full"))+`, is full \([0-9,]+ bytes free\)`, p.stderr.String())
	require.Contains(t, p.stderr.String(), "has room again")
}

func TestBadInput_ReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	b := setup(t)
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

// TestBadInput_FullStore: the parts have no room; status says so, and with room the job goes on.
func TestBadInput_FullStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cluster()
	b.write("in.txt", numbers(100_000))
	require.NoError(t, os.Mkdir(b.path("full"), 0o755))
	p := b.inNamespace(`
mount -t tmpfs -o size=256k tmpfs full
"$1" worker --pool p --allow all --exec cat & worker=$!
"$1" start --pool p --name one in.txt -o full/out.txt --wait & start=$!
until "$1" status one > said && grep -q '^waiting .*no space left on device' said; do sleep 0.2; done
test ! -e full/out.txt
cat said >&2
mount -o remount,size=16m tmpfs full
wait $start
cmp in.txt full/out.txt
kill $worker
wait $worker
`)
	p.exits(0)
	require.Contains(t, p.stderr.String(), b.path("full/out.txt.stint"))
	require.Contains(t, p.stderr.String(), "no space left on device (free some space on the disk at "+b.path("full")+", and the job continues)")
}

// TestD20_ADeviceAsOutput: nothing is written beside a device, or what a process has open, where others may not write.
func TestD20_ADeviceAsOutput(t *testing.T) {
	t.Parallel()
	for output, spawn := range map[string]func(*box, ...string) *process{
		"/dev/null":   (*box).spawnUnprivileged,
		"/dev/stdout": (*box).spawn, // which other users could not open
	} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", "a\nb\n")
			spawn(b, "run", "--exec", "grep a", "in.txt", "-o", output).exits(starter.ExitSomeFailed)
			require.Len(t, b.failures("stint.errors.jsonl"), 1)
		})
	}
}
