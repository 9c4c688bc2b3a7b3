package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"
)

// addresses are where the scheduler may be: its load balancer, or each of its instances. They belong to the goroutine that
// connects.
type addresses struct {
	all  []string
	at   int         // where the session is, or tries to be
	away []time.Time // until when each of them asked to be left alone
}

// newAddresses reads them. The first to be tried is any of them, so that sessions do not all go to one instance.
func newAddresses(given []string) (addresses, error) {
	a := addresses{}
	for _, address := range given {
		u, err := endpoint(address)
		if err != nil {
			return addresses{}, err
		}
		a.all = append(a.all, u)
	}
	a.at = rand.IntN(len(a.all))
	a.away = make([]time.Time, len(a.all))
	return a, nil
}

// stayAway notes that the present one asked to be left alone for a while. The others did not.
func (a *addresses) stayAway(d time.Duration) { a.away[a.at] = time.Now().Add(d) }

// wait is how long the present one wants to be left alone.
func (a *addresses) wait() time.Duration { return time.Until(a.away[a.at]) }

func (a *addresses) here() string { return a.all[a.at] }

// others reports whether there is more than one.
func (a *addresses) others() bool { return len(a.all) > 1 }

// next goes on to the one after it.
func (a *addresses) next() { a.at = (a.at + 1) % len(a.all) }

// endpoint is the URL of the socket, given that or the scheduler's address.
func endpoint(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("client: Config.URL cannot be read; it should be like http://127.0.0.1:5010")
	}
	switch {
	case u.Scheme != "ws" && u.Scheme != "wss" && u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("client: Config.URL begins with %q; it should be like http://127.0.0.1:5010", u.Scheme)
	case u.Host == "":
		return "", errors.New("client: Config.URL names no host; it should be like http://127.0.0.1:5010")
	case u.User != nil:
		return "", errors.New("client: Config.URL holds a user name; put the session token into Config.Token")
	}
	switch {
	case u.Path == "" || u.Path == "/":
		u.Path = socketPath
	case strings.HasPrefix(u.Scheme, "http") && !strings.HasSuffix(u.Path, socketPath):
		u = u.JoinPath(socketPath)
	}
	return u.String(), nil
}
