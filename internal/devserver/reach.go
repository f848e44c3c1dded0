package devserver

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// reachLimit is how long a connection to this process itself may take. Without a network it fails at once; on an overloaded machine the process may
// not run for seconds.
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
