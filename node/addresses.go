package node

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"strings"
)

// addresses are where the scheduler may be: its load balancer, or each of its instances. They belong to the goroutine that
// connects.
type addresses struct {
	all []*url.URL
	at  int // where the node is, or tries to be
	not int // how many in a row were no scheduler's
}

// newAddresses reads them. The first to be tried is any of them, so that nodes do not all go to one instance.
func newAddresses(given []string) (addresses, error) {
	a := addresses{}
	for _, address := range given {
		u, err := socketURL(address)
		if err != nil {
			return addresses{}, err
		}
		a.all = append(a.all, u)
	}
	a.at = rand.IntN(len(a.all))
	return a, nil
}

func (a *addresses) here() *url.URL { return a.all[a.at] }

// others reports whether there is more than one.
func (a *addresses) others() bool { return len(a.all) > 1 }

// next goes on to the one after it.
func (a *addresses) next() { a.at = (a.at + 1) % len(a.all) }

// round is in which round over all of them a try is, counted from 1: each is tried soon before any is tried late.
func (a *addresses) round(failed int) int { return 1 + (failed-1)/len(a.all) }

// hopeless reports whether, after an error, trying again is no use. That an address leads elsewhere than to a scheduler
// says nothing about the others.
func (a *addresses) hopeless(err error) bool {
	var wrong final
	if !errors.As(err, &wrong) {
		a.not = 0
		return hopeless(err)
	}
	a.not++
	return a.not >= len(a.all)
}

// socketURL is where the node socket is, given that or the scheduler's address.
func socketURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("node: URL must be the scheduler's address, such as http://127.0.0.1:5010 or ws://127.0.0.1:5010/ws/node")
	case u.User != nil:
		return nil, errors.New("node: URL holds a user name; put the node's token into Config.Token")
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
		return nil, errors.New("node: URL must begin with http://, https://, ws:// or wss://")
	}
	return u, nil
}

// httpBase is the address against which other addresses of the scheduler are read.
func httpBase(socket *url.URL) *url.URL {
	base := *socket
	base.Scheme = "http" + strings.TrimPrefix(socket.Scheme, "ws")
	return &base
}
