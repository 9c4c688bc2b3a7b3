package auth

import (
	"net/http"
	"strings"
)

// SetTransport makes a client send its requests with a transport.
func SetTransport(c *PeerClient, t http.RoundTripper) { c.http.Transport = t }

// SignFields signs the fields of a header for a request.
func SignFields(secret, fields, target, method, uri string) string {
	return Signer(secret).Sign(strings.Join([]string{"lingua peer request", fields, target, method, uri, emptyBody}, "\n"))
}
