//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
)

// host is a machine of the cluster: a network namespace, which is connected to the one of the servers by a wire.
type host struct {
	name, namespace string
	address         netip.Addr
	dir             string // logs, and temporary files on a disk of their own
	wire            *wire  // nil for the servers' host
	memory          string // directory of its memory's control group; "": there is none
	env             []string
	worker          *process
}

// process is a program on a host. It is used by one goroutine.
type process struct {
	cmd   *exec.Cmd
	ended <-chan error // once
	over  bool
}

// diskSize is the size of a host's disk for temporary files, for mount.
const diskSize = "64m"

// newHost makes a host with an address.
func newHost(ctx context.Context, prefix, name, dir string, address netip.Addr, env []string) (*host, error) {
	h := &host{name: name, namespace: prefix + name, address: address, dir: filepath.Join(dir, name), env: env}
	if err := os.MkdirAll(h.temporary(), 0o755); err != nil {
		return nil, err
	}
	if err := run(ctx, "mount", "-t", "tmpfs", "-o", "mode=1777,size="+diskSize, "stint-"+name, h.temporary()); err != nil {
		return nil, err
	}
	if err := run(ctx, "ip", "netns", "add", h.namespace); err != nil {
		return h, err
	}
	return h, h.ip(ctx, "link set lo up")
}

func (h *host) temporary() string { return filepath.Join(h.dir, "tmp") }

// ip runs an ip command on the host.
func (h *host) ip(ctx context.Context, command string) error {
	return run(ctx, "ip", append([]string{"-n", h.namespace}, strings.Fields(command)...)...)
}

// connect lays a wire to the host of the servers.
func (h *host) connect(ctx context.Context, servers *host, seed uint64) error {
	device := "tun-" + h.name
	var err error
	if h.wire, err = newWire("/run/netns/"+h.namespace, "/run/netns/"+servers.namespace, device, seed); err != nil {
		return err
	}
	up := fmt.Sprintf("link set %s up mtu %d", device, mtu)
	return errors.Join(
		h.ip(ctx, fmt.Sprintf("address add %s/32 dev lo", h.address)),
		h.ip(ctx, up), h.ip(ctx, fmt.Sprintf("route add default dev %s src %s", device, h.address)),
		servers.ip(ctx, up), servers.ip(ctx, fmt.Sprintf("route add %s/32 dev %s", h.address, device)),
	)
}

// limit gives the host a control group that holds the worker to so much memory, in bytes.
func (h *host) limit(bytes int64) error {
	for _, way := range []struct{ root, file string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"},
	} {
		group := filepath.Join(way.root, h.namespace)
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(group, way.file), []byte(strconv.FormatInt(bytes, 10)), 0o600); err == nil {
			h.memory = group
			return nil
		}
		_ = os.Remove(group)
	}
	return errors.New("there are no control groups for memory here")
}

// join moves a process into the host's control group.
func (h *host) join(pid int) error {
	return os.WriteFile(filepath.Join(h.memory, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600)
}

// command returns a program to be run on the host.
func (h *host) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", h.namespace}, argv...)...)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+h.temporary()), h.env...)
	return cmd
}

// start starts a program on the host, which writes to a log of that name.
func (h *host) start(log string, argv ...string) (*process, error) {
	return h.startIn(log, nil, argv...)
}

func (h *host) startIn(log string, env []string, argv ...string) (*process, error) {
	file, err := os.OpenFile(filepath.Join(h.dir, log+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := h.command(context.Background(), argv...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &process{cmd: cmd, ended: trap.Go("waiting for "+log, func() error { return errors.Join(cmd.Wait(), file.Close()) })}, nil
}

// signal sends a signal, and waits until the process has ended, for so long at most; then it is killed.
func (p *process) signal(s syscall.Signal, grace time.Duration) {
	_ = p.cmd.Process.Signal(s) // it may have ended
	if !p.endsWithin(grace) {
		p.kill()
	}
}

// endsWithin waits until the process has ended, for so long at most, and reports whether it has.
func (p *process) endsWithin(d time.Duration) bool {
	if !p.over {
		select {
		case <-p.ended: // how does not matter
			p.over = true
		case <-time.After(d):
		}
	}
	return p.over
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.endsWithin(patience)
}

// close ends what runs on the host, and removes it.
func (h *host) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if h.wire != nil {
		h.wire.close()
	}
	pids, _ := exec.CommandContext(ctx, "ip", "netns", "pids", h.namespace).Output()
	for pid := range strings.FieldsSeq(string(pids)) {
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	_ = run(ctx, "ip", "netns", "delete", h.namespace)
	_ = run(ctx, "umount", "--lazy", h.temporary())
	if h.memory != "" {
		_ = os.Remove(h.memory)
	}
}

// run runs a program of this machine.
func run(ctx context.Context, name string, args ...string) error {
	return finish(exec.CommandContext(ctx, name, args...))
}

// finish runs a command to its end. The error has what it printed.
func finish(cmd *exec.Cmd) error {
	var said strings.Builder
	if cmd.Stdout == nil {
		cmd.Stdout = &said
	}
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, said.String())
	}
	return nil
}
