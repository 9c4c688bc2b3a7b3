package scheduler

import (
	"context"
	"net"
	"net/netip"
)

// advertise sets the URL at which other instances and nodes reach this instance: server.advertise_url, or one derived from
// the listening address. It warns if the instance listens on all addresses and the derived one is of use only on this machine.
func (s *Scheduler) advertise(ctx context.Context, listening net.Addr) {
	url := s.cfg.Server.AdvertiseURL
	if url == "" {
		address := s.reachableAddress(ctx, listening)
		url = s.credentials.scheme() + "://" + address
		if listensOnAll(listening) && isLocalOnly(address) {
			s.log.Warn("this instance listens for other machines, and found no address at which they reach it; set "+
				"server.advertise_url: nodes fetch audio there, and other instances ask for jobs",
				"advertise_url", url)
		}
	}
	s.nodeConns.Advertise(url)
}

// scheme is that of the URLs of this instance.
func (c *credentials) scheme() string {
	if c.certificate != nil {
		return "https"
	}
	return "http"
}

// listensOnAll reports whether a listening address covers all addresses of this machine.
func listensOnAll(listening net.Addr) bool {
	tcp, ok := listening.(*net.TCPAddr)
	return ok && tcp.IP.IsUnspecified()
}

// isLocalOnly reports whether other machines cannot reach this one at an address.
func isLocalOnly(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && (a.Addr().IsLoopback() || a.Addr().IsUnspecified())
}

// reachableAddress returns the address at which others reach a listening address. For a listener on all addresses it is the
// local address of a route to the shared store.
func (s *Scheduler) reachableAddress(ctx context.Context, listening net.Addr) string {
	store, shared, err := s.cfg.RedisAddress()
	if !listensOnAll(listening) || err != nil || !shared {
		return listening.String()
	}
	var d net.Dialer
	route, err := d.DialContext(ctx, "udp", store.Hosts[0]) // sends nothing
	if err != nil {
		return listening.String()
	}
	defer func() { _ = route.Close() }()
	host, _, hostErr := net.SplitHostPort(route.LocalAddr().String())
	_, port, portErr := net.SplitHostPort(listening.String())
	if hostErr != nil || portErr != nil {
		return listening.String()
	}
	return net.JoinHostPort(host, port)
}
