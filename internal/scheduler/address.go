package scheduler

import (
	"context"
	"net"
	"net/netip"
)

// advertise says where the others and the nodes reach this instance. One that listens for everybody and finds only an
// address that means another machine to everybody else says so.
func (s *Scheduler) advertise(ctx context.Context, at net.Addr) {
	url := s.cfg.Server.AdvertiseURL
	if url == "" {
		found := s.reachable(ctx, at)
		url = "http://" + found
		if everywhere(at) && nowhere(found) {
			s.log.Warn("this instance listens for other machines, and found no address at which they reach it; set server.advertise_url: nodes fetch sound there, and other instances ask for jobs",
				"advertise_url", url)
		}
	}
	s.nodeConns.Advertise(url)
}

// everywhere reports whether an address is every one of this machine's.
func everywhere(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return ok && tcp.IP.IsUnspecified()
}

// nowhere reports whether an address leads other machines to themselves.
func nowhere(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && (a.Addr().IsLoopback() || a.Addr().IsUnspecified())
}

// reachable is where others reach an address this process listens on. One that listens everywhere is reached at the
// address from which it reaches the shared store.
func (s *Scheduler) reachable(ctx context.Context, at net.Addr) string {
	store, shared, err := s.cfg.RedisAddress()
	if !everywhere(at) || err != nil || !shared {
		return at.String()
	}
	var d net.Dialer
	way, err := d.DialContext(ctx, "udp", store.Hosts[0]) // which sends nothing
	if err != nil {
		return at.String()
	}
	defer func() { _ = way.Close() }()
	own, _, err := net.SplitHostPort(way.LocalAddr().String())
	_, port, wrong := net.SplitHostPort(at.String())
	if err != nil || wrong != nil {
		return at.String()
	}
	return net.JoinHostPort(own, port)
}
