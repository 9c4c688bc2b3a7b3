// Package endpoints holds the WebSocket addresses of a scheduler and rotates through them. The public packages node and
// client share it; it must not import any other package of this module.
package endpoints

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"
)

// Rotation is the list of a scheduler's endpoints (its load balancer, or each of its instances) and the one in use. A
// Rotation must not be used by two goroutines at once.
type Rotation struct {
	urls    []*url.URL
	current int
	avoid   []time.Time // for each endpoint, the time until which it asked clients to stay away
}

// New returns a rotation over addresses, each that of the socket or of the scheduler's HTTP API. It starts at a random
// endpoint, so that many clients with the same list spread over all instances.
func New(addresses []string, socketPath string) (*Rotation, error) {
	if len(addresses) == 0 {
		addresses = []string{""} // for the error
	}
	r := &Rotation{avoid: make([]time.Time, len(addresses))}
	for _, address := range addresses {
		u, err := SocketURL(address, socketPath)
		if err != nil {
			return nil, err
		}
		r.urls = append(r.urls, u)
	}
	r.current = rand.IntN(len(r.urls))
	return r, nil
}

// Current returns the URL of the endpoint in use.
func (r *Rotation) Current() *url.URL { return r.urls[r.current] }

// Len returns the number of endpoints.
func (r *Rotation) Len() int { return len(r.urls) }

// Next moves to the following endpoint.
func (r *Rotation) Next() { r.current = (r.current + 1) % len(r.urls) }

// Round returns the number, from 0, of the round over all endpoints that retry number n, from 0, belongs to. A backoff
// that grows by rounds tries every endpoint soon before it tries any of them late.
func (r *Rotation) Round(n int) int { return n / len(r.urls) }

// Avoid records that the current endpoint asked clients to stay away for d.
func (r *Rotation) Avoid(d time.Duration) { r.avoid[r.current] = time.Now().Add(d) }

// AvoidFor returns how long the current endpoint is still to be avoided; 0 or less if it is not.
func (r *Rotation) AvoidFor() time.Duration { return time.Until(r.avoid[r.current]) }

// SocketURL returns the ws or wss URL of a socket, given that URL or the address of the scheduler's HTTP API.
func SocketURL(address, socketPath string) (*url.URL, error) {
	const example = "http://127.0.0.1:5010"
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "": // the parser's error would repeat the address, which may hold a secret
		return nil, errors.New("URL must be the address of the scheduler, such as " + example + " or ws://127.0.0.1:5010" + socketPath)
	case u.User != nil:
		return nil, errors.New("URL holds a user name; put the token into Config.Token")
	}
	switch u.Scheme {
	case "http", "https":
		u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
		if !strings.HasSuffix(u.Path, socketPath) {
			u = u.JoinPath(socketPath)
		}
	case "ws", "wss":
		if u.Path == "" || u.Path == "/" {
			u.Path = socketPath
		}
	default:
		return nil, fmt.Errorf("URL must begin with http://, https://, ws:// or wss://, not %q", u.Scheme)
	}
	return u, nil
}

// HTTPBase returns the URL of the scheduler's HTTP API, against which relative URLs are resolved, for a socket URL.
func HTTPBase(socket *url.URL) *url.URL {
	base := *socket
	base.Scheme = "http" + strings.TrimPrefix(socket.Scheme, "ws")
	return &base
}
