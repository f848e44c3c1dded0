//go:build !noserver

package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/stint-run/stint/internal/base/backoff"
)

// PortError reports that a port cannot be bound.
type PortError struct {
	// What the port is for: "Temporal frontend" or "web UI".
	What string
	// Addr is the address, host:port.
	Addr string
	// Err is the cause.
	Err error
}

// Error says which port it is and how to choose another.
func (e *PortError) Error() string {
	flag := "--port"
	if e.What == uiWhat {
		flag = "--ui-port"
	}
	switch {
	case errors.Is(e.Err, syscall.EADDRINUSE):
		return fmt.Sprintf("%s: %s is in use: stop what uses it, or choose another port (%s)", e.What, e.Addr, flag)
	case errors.Is(e.Err, syscall.EADDRNOTAVAIL):
		return fmt.Sprintf("%s: %s is not an address of this machine: choose another (--ip)", e.What, e.Addr)
	default:
		return fmt.Sprintf("%s: cannot listen on %s: %v: choose another port (%s)", e.What, e.Addr, e.Err, flag)
	}
}

// Unwrap returns the cause.
func (e *PortError) Unwrap() error { return e.Err }

const (
	frontendWhat = "Temporal frontend"
	uiWhat       = "web UI"
)

// listen binds the port, or for AnyPort the preferred one, or else a free one. The listener that comes back is the one
// that serves: a port is never given back between being found free and being used.
func listen(what, ip string, port, prefer int) (net.Listener, error) {
	if port == AnyPort && prefer > 0 {
		if l, err := bind(ip, prefer); err == nil {
			return l, nil
		}
	}
	number := max(port, 0) // 0: the kernel chooses
	l, err := bind(ip, number)
	if err != nil {
		return nil, &PortError{What: what, Addr: net.JoinHostPort(ip, strconv.Itoa(number)), Err: cause(err)}
	}
	return l, nil
}

// bind asks for IPv4 if the address is one, because Go understands "tcp" on 0.0.0.0 as all addresses of IPv6 too.
func bind(ip string, port int) (net.Listener, error) {
	network := "tcp"
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Unmap().Is4() {
		network = "tcp4"
	}
	return net.Listen(network, net.JoinHostPort(ip, strconv.Itoa(port)))
}

// cause strips the words that net puts around a system call's error.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// reachable returns the address under which a process on this machine reaches the listener: that of the loopback
// interface if it is bound to all of them.
func reachable(l net.Listener) string {
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	ip := addr.Addr().Unmap()
	switch {
	case ip == netip.IPv6Unspecified():
		ip = netip.IPv6Loopback()
	case ip.IsUnspecified():
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(ip, addr.Port()).String()
}

// reachLimit is how long a connection to this process itself may take. Without a network it fails at once; on an
// overloaded machine the process may not run for seconds.
const reachLimit = 20 * time.Second

// checkReach returns an error if this process cannot connect to itself, as in a network namespace whose loopback
// interface is down: the server's services would try for a minute.
func checkReach(dial func(network, address string, limit time.Duration) (net.Conn, error)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return unreachable(err)
	}
	defer l.Close()
	c, err := dial("tcp", l.Addr().String(), reachLimit)
	if err != nil {
		return unreachable(err)
	}
	return c.Close()
}

func unreachable(err error) error {
	advice := "bring the loopback interface up (ip link set lo up)"
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		advice = "the machine is overloaded, or a firewall drops what it sends to itself"
	}
	return fmt.Errorf("a connection to this machine's own address 127.0.0.1 does not work, which the server needs: %w; %s", err, advice)
}

const readyPoll = 2 * time.Millisecond

// waitReady returns when the server can start a workflow: a question for one that does not exist is answered with "not
// found" only after it went through the frontend, the namespace and the history shard.
func waitReady(ctx context.Context, address, namespace string) (err error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	client := workflowservice.NewWorkflowServiceClient(conn)
	for {
		_, err := client.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: namespace,
			Execution: &common.WorkflowExecution{WorkflowId: "stint-ready"},
		}, grpc.WaitForReady(true))
		if status.Code(err) == codes.NotFound || err == nil {
			return nil
		}
		if !backoff.Wait(readyPoll, ctx.Done()) {
			return fmt.Errorf("waiting for it to answer: %w (last answer: %w)", ctx.Err(), err)
		}
	}
}
