package peer

import (
	"net/http"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// SetTransport makes a client send its requests with a transport.
func SetTransport(c *Client, t http.RoundTripper) { c.http.Transport = t }

// SignFields signs the fields of a header for a request.
func SignFields(secret, fields, target, method, uri string) string {
	return auth.Signer(secret).Sign(strings.Join([]string{"lingua peer request", fields, target, method, uri, emptyBody}, "\n"))
}
