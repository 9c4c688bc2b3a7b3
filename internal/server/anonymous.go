package server

import (
	"net"
	"net/http"
	"net/url"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// identifyAnonymous returns the caller of a request without a credential, if the configuration gives it a role. The address is that of the
// connection, and whatever X-Forwarded-For says is not considered. Because a browser within the network of the proxy needs nothing else to
// have the role, the request must not come from a page of another origin, whatever its method, and not be for a name that is not
// configured.
func (a *accessControl) identifyAnonymous(req *http.Request) (*auth.Principal, auth.Reason) {
	p, reason := a.auth.AuthenticateAnonymous(req.RemoteAddr)
	switch {
	case reason != "":
		return nil, reason
	case !a.auth.Keyring().AdmitsHost(hostOf(req.Host)):
		return nil, deniedHost
	case fromAnotherOrigin(req):
		return nil, deniedCrossOrigin
	}
	return p, ""
}

// hostOf returns a host without its port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// fromAnotherOrigin reports whether a browser says that a page of another origin causes a request. http.CrossOriginProtection, which every
// request passes, does not consider those that change nothing.
func fromAnotherOrigin(req *http.Request) bool {
	switch req.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
	default:
		return true
	}
	origin := req.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != req.Host
}
