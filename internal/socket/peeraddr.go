package socket

import "net/netip"

// ipv6Network is the size of a network of which one customer has all addresses.
const ipv6Network = 64

// PeerAddr returns the address under which the peer at host:port is counted. All that cannot be parsed count as one, the zero address.
func PeerAddr(remote string) netip.Addr {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return CountedAddr(peer.Addr())
}

// CountedAddr returns the address under which an address is counted: itself, or the network of an IPv6 address.
func CountedAddr(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		network, _ := addr.Prefix(ipv6Network) // an IPv6 address has one
		addr = network.Addr()
	}
	return addr
}
