//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"golang.org/x/sys/unix"
)

const (
	// mtu of a wire, in bytes: large, because every packet is copied by this process.
	mtu = 9000
	// queued is the most packets that are on their way; a wire drops what is beyond that, as a router does.
	queued = 10_000
)

// conditions are what a wire does to packets, in both directions.
type conditions struct {
	cut   []netip.Addr  // packets from and to these addresses are dropped
	loss  float64       // share of the packets that is dropped, from 0 to 1
	delay time.Duration // from one end to the other
}

// wire connects two network namespaces by two TUN devices. Kernels need no module for that, unlike tc's netem. It may be
// used by several goroutines.
type wire struct {
	ends [2]*os.File
	now  atomic.Pointer[conditions]
}

// newWire connects the namespaces at two paths by devices of one name. seed chooses the packets that get lost.
func newWire(from, to, device string, seed uint64) (*wire, error) {
	w := &wire{}
	w.set(conditions{})
	for i, namespace := range []string{from, to} {
		end, err := tun(namespace, device)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("making the device %s in %s: %w", device, namespace, err)
		}
		w.ends[i] = end
	}
	for i := range w.ends {
		trap.Go("a wire", func() error { return w.carry(w.ends[i], w.ends[1-i], rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	return w, nil
}

func (w *wire) set(c conditions) { w.now.Store(&c) }

func (w *wire) close() {
	for _, end := range w.ends {
		if end != nil {
			_ = end.Close() // its packets are lost, as they may be
		}
	}
}

// packet is one on its way.
type packet struct {
	data []byte
	due  time.Time
}

// carry brings packets from one end to the other, in order, until the ends are closed.
func (w *wire) carry(from, to *os.File, random *rand.Rand) error {
	way := make(chan packet, queued)
	defer close(way)
	trap.Go("the end of a wire", func() error {
		for p := range way {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data) // a device that is down loses it
		}
		return nil
	})
	buffer := make([]byte, mtu)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return err
		}
		c := w.now.Load()
		if c.drops(buffer[:n], random) {
			continue
		}
		select {
		case way <- packet{slices.Clone(buffer[:n]), time.Now().Add(c.delay)}:
		default:
		}
	}
}

// drops reports whether a packet gets lost.
func (c *conditions) drops(p []byte, random *rand.Rand) bool {
	if len(p) < 20 || p[0]>>4 != 4 {
		return true // not IPv4: neighbours that are looked for
	}
	source, target := netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	return slices.Contains(c.cut, source) || slices.Contains(c.cut, target) || c.loss > 0 && random.Float64() < c.loss
}

// tun makes a TUN device in a network namespace, and opens it.
func tun(namespace, name string) (*os.File, error) {
	var f *os.File
	err := <-trap.Go("making a device", func() error {
		runtime.LockOSThread() // which is in the other namespace then, and ends with the goroutine
		var err error
		f, err = openTun(namespace, name)
		return err
	})
	return f, err
}

func openTun(namespace, name string) (*os.File, error) {
	ns, err := os.Open(namespace)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
