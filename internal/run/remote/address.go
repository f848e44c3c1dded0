package remote

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// addressError reports that a host has an address that may not be called.
type addressError struct{ address, why string }

func (e *addressError) Error() string { return fmt.Sprintf("%s is %s", e.address, e.why) }

// refuseOwn is the Control of a dialer: it is asked with the address that a connection is really made to, after names
// have been resolved.
func refuseOwn(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &addressError{address, "no address of a host"}
	}
	if why := own(at.Addr()); why != "" {
		return &addressError{at.Addr().String(), why}
	}
	return nil
}

// notPublic are ranges that netip has no word for.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by providers with their customers
	netip.MustParsePrefix("192.0.0.0/24"),    // for protocols
	netip.MustParsePrefix("198.18.0.0/15"),   // for benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("fec0::/10"),       // of sites
	netip.MustParsePrefix("64:ff9b:1::/48"),  // translated, in a network of its own
	netip.MustParsePrefix("100::/64"),        // discarded
	netip.MustParsePrefix("2001::/32"),       // Teredo
	netip.MustParsePrefix("::ffff:0:0:0/96"), // translated
	netip.MustParsePrefix("::/96"),           // of IPv4, as it once was written
}

// own returns what an address is if it lies in the machine's own network; "" if it is public.
func own(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if in, ok := embedded(a); ok {
		a = in
	}
	switch {
	case a.IsLoopback(), a.IsUnspecified():
		return "this machine"
	case a.IsLinkLocalUnicast(), a.IsLinkLocalMulticast(), a.IsInterfaceLocalMulticast():
		return "an address of the local link, where clouds have their metadata"
	case a.IsPrivate():
		return "an address of a private network"
	case a.IsMulticast(), slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) }):
		return "no public address"
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "possibly this machine, whose addresses are not known: " + err.Error()
	}
	for _, local := range addresses {
		prefix, err := netip.ParsePrefix(local.String())
		if err == nil && prefix.Addr().Unmap() == a {
			return "this machine"
		}
	}
	return ""
}

// embedded returns the IPv4 address within one of IPv6: of NAT64 and 6to4.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case !a.Is6():
		return a, false
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return a, false
}
