package starter_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

// smallDisk is a disk with little space, which only processes see that enter its namespace.
type smallDisk struct {
	t     *testing.T
	path  string   // where these see it
	enter []string // the words before the command of such a process
	seen  string   // where this one sees it
}

// newSmallDisk mounts an empty disk of 16 MiB.
func newSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	b := setup(t)
	unshare, enter := b.namespace()
	holder := b.spawnCommand(exec.Command(unshare[0], append(unshare[1:], "sh", "-euc",
		`mount -t tmpfs -o size=16m tmpfs "$1"; echo mounted >&2; exec sleep infinity`, "sh", b.dir)...))
	holder.says("mounted")
	pid := itoa(holder.cmd.Process.Pid)
	return &smallDisk{t: t, path: b.dir, enter: append(enter, pid), seen: filepath.Join("/proc", pid, "root", b.dir)}
}

// fill fills the disk up, until it is emptied.
func (d *smallDisk) fill() {
	d.t.Helper()
	f, err := os.Create(d.filler())
	require.NoError(d.t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, os.Getpagesize()))
	}
	require.ErrorIs(d.t, err, syscall.ENOSPC)
}

func (d *smallDisk) empty() {
	d.t.Helper()
	require.NoError(d.t, os.Remove(d.filler()))
}

func (d *smallDisk) filler() string { return filepath.Join(d.seen, "fill") }

// diskRepeats is how many batches a full disk may have run twice: those that were dispatched before it was noticed,
// and those that find out whether it has room.
const diskRepeats = limits.LeastAutoWindow + allInHand

var diskFaults = []fault{
	{"the disk is full", diskRepeats, func(c *chaos) { c.fillWhile(func() {}) }},
	{"all workers are killed while the disk is full", diskRepeats + allInHand, func(c *chaos) { c.fillWhile(c.killWorkers) }},
	{"the server is killed while the disk is full", diskRepeats + allInHand, func(c *chaos) { c.fillWhile(c.killServer) }},
}

// fillWhile has the disk full for as long as an outage lasts, and something else happen half way.
func (c *chaos) fillWhile(other func()) {
	c.disk.fill()
	defer c.disk.empty()
	c.meanwhile(other)
}

// TestChaos_FullDiskShort is a short round of TestChaos_FullDisk.
func TestChaos_FullDiskShort(t *testing.T) {
	t.Parallel()
	withstandFullDisk(t, 10_000, 2, 2*time.Second)
}

// TestChaos_FullDisk: a disk of the output that fills up costs time alone.
func TestChaos_FullDisk(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstandFullDisk(t, 100_000, len(diskFaults), 20*time.Second) })
}

// withstandFullDisk is withstand for a disk that is full for so long.
func withstandFullDisk(t *testing.T, n, number int, lasts time.Duration) {
	t.Helper()
	disk := newSmallDisk(t)
	c := newChaos(t, n)
	c.disk, c.lasts = disk, lasts
	c.begin(c.write("in.txt", numbers(n)), filepath.Join(disk.path, "out.txt"), disk.enter...)
	c.rage(c.choose(diskFaults, number))
	c.end(func() string { return c.read(filepath.Join(disk.seen, "out.txt")) })
}
