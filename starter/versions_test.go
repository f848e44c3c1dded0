package starter_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// V2, V3: a handler has the version that its worker is given, or one by its command and files. Batches of a job go to
// any version, which is said, or to the one that the job is pinned to, for which it waits, and says so.
func TestVersions_MixedAndPinned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(100))
	start := func(name string, flags ...string) {
		b.stint(append([]string{"start", "--pool", "p", "--name", name, "in.txt", "-o", name + ".txt", "--batch-items", "10"}, flags...)...).exits(starter.ExitOK)
	}
	status := func(name string) string {
		c := b.stint("status", name).exits(starter.ExitOK)
		return c.stdout.String() + c.stderr.String()
	}
	b.worker("p", "--exec", b.halfway(), "--slots", "1", "--call-items", "10", "--version", "v1")
	require.Regexp(t, `POOL +WORKER +VERSION +SEEN\np +\S+ +v1 `, b.stint("workers").exits(starter.ExitOK).stdout.String())
	start("mixed")
	eventually(t, "item 50 is in hand", func() bool {
		_, err := os.Stat(filepath.Join(b.dir, "started"))
		return err == nil
	})
	start("pinned", "--pin")
	eventually(t, "it is pinned", func() bool { return b.status("pinned").Pinned == "v1" })
	start("absent", "--pin=v9")
	b.worker("p", "--exec", "cat", "--slots", "1", "--version", "v2")
	eventually(t, "the second worker has done the others", func() bool { return b.status("mixed").Done() == 90 })
	b.write("gate", "")
	for _, name := range []string{"mixed", "pinned"} {
		b.stint("watch", name).exits(starter.ExitOK)
		require.Equal(t, numbers(100), b.read(name+".txt"))
	}
	require.Regexp(t, `versions +v\d: \d+ items, v\d: \d+ items \(mixed\)`, status("mixed"))
	require.Regexp(t, `pinned +to version v1 of the handler\nversions +v1: 100 items\n`, status("pinned"))
	eventually(t, "it says what it waits for", func() bool { return b.status("absent").InFlight > 0 })
	require.Contains(t, status("absent"), "no worker of pool p has version v9 of the handler, to which job absent is pinned")
	b.worker("p", "--exec", "cat", "--version", "v9")
	b.stint("watch", "absent").exits(starter.ExitOK)
	require.Equal(t, "v9: 100 items", b.status("absent").DescribeVersions())
}

// V2: of a run, the version of the handler is that of --reuse.
func TestVersions_OfARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "1\n")
	b.write("prompt.txt", "a")
	version := func(flags ...string) string {
		b.stint(append([]string{"run", "--exec", "cat", "in.txt", "-o", "out.txt", "--report", "report.json", "--fresh"}, flags...)...).exits(starter.ExitOK)
		all := b.report("report.json").Versions
		require.Len(t, all, 1)
		return all[0].Version
	}
	require.Equal(t, "v3", version("--version", "v3", "--reuse"))
	long := version("--version", "a prompt of mine")
	require.Regexp(t, `^[0-9a-f]{12}$`, long, "it cannot name a task queue")
	require.NotEqual(t, long, version("--version", "a prompt of mine", "--version-of", "prompt.txt"))
}
