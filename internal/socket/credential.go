package socket

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lingua-scheduler/lingua/wire"
)

// Token returns the bearer token of a handshake, "" if there is none: from the Authorization header, or, as browsers
// cannot set one, from an offered subprotocol.
func Token(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
		return token
	}
	for _, p := range tokens(r.Header, "Sec-Websocket-Protocol") {
		if token, ok := strings.CutPrefix(p, wire.TokenSubprotocol); ok && token != "" {
			return token
		}
	}
	return ""
}

// tokens takes a header that is a list apart.
func tokens(h http.Header, key string) []string {
	var all []string
	for _, line := range h[key] {
		for t := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(t))
		}
	}
	return all
}

// sameOrigin reports whether the page that opens the connection may do so. What is not a browser sends no Origin.
func sameOrigin(r *http.Request, allowed []string) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(allowed, "*") {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return strings.EqualFold(u.Host, r.Host) || slices.ContainsFunc(allowed, func(a string) bool { return covers(a, u) })
}

// covers reports whether an entry of Options.Origins allows an origin.
func covers(entry string, origin *url.URL) bool {
	if scheme, host, ok := strings.Cut(entry, "://"); ok {
		if !strings.EqualFold(scheme, origin.Scheme) {
			return false
		}
		entry = host
	}
	if below, ok := strings.CutPrefix(entry, "*"); ok {
		return len(origin.Host) > len(below) && strings.HasPrefix(below, ".") &&
			strings.EqualFold(origin.Host[len(origin.Host)-len(below):], below)
	}
	return strings.EqualFold(entry, origin.Host)
}
