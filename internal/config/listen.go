package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Loopback reports whether a host can only be reached from this machine.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// bareAddress reports whether a text is a scheme, a host and perhaps a port, and nothing else: paths are put after it, and
// everybody in the fleet is shown it.
func bareAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && strings.EqualFold(u.Scheme+"://"+u.Host, text)
}

// exposed says why an address that is not loopback is refused, to whoever wrote it in the file, in the
// environment or after --listen.
func (s *Server) exposed() string {
	what := "is not loopback: other machines may reach it"
	if ip := net.ParseIP(s.Host); s.Host == "" || ip != nil && ip.IsUnspecified() {
		what = "listens on every interface of this machine"
	}
	return fmt.Sprintf("%s %s, and as there are no keys, whoever reaches it controls the fleet; use 127.0.0.1 (--listen %s), or --insecure if nobody else can reach it",
		s.Address(), what, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
}
