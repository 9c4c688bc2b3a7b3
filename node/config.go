package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	socketPath   = "/ws/node"
	mostSlots    = 10000
	defaultGrace = 30 * time.Second
)

// Config is who a node is and what it can do. URL or URLs, Slots and Declaration.SemanticLangs are required.
type Config struct {
	// URL is where the scheduler is: ws://127.0.0.1:5010/ws/node, or its address for HTTP, to which the path is added.
	URL string
	// URLs are further addresses of the same scheduler, where no load balancer stands in front of its instances. All are
	// tried in turn, beginning at a random one; a connection that broke is first tried where it was.
	URLs []string
	// Token is the node's credential. It is sent to the scheduler only.
	Token string
	// ID is the node's name. Empty: the scheduler makes one, which is kept over reconnects.
	ID string
	// Slots is how many jobs the node does at once. Handler never runs more often at the same time. The list of all of them
	// goes in one message, which holds some two thousand; further ones are refused.
	Slots int
	// Declaration is what the node can do. MaxConcurrentJobs and Active are filled in. Node.Update changes it.
	Declaration wire.Declaration
	// Load is asked at each heartbeat how busy the machine is, each from 0 to 1. It should answer at once. Optional.
	Load func() wire.Load
	// OnDrain is told when an operator wants the node to get nothing new, and when it is wanted again. A drained node takes
	// nothing and finishes what it has, and does not leave by itself: end Run's context here if it should. It is called by
	// the one goroutine that reads from the scheduler, so it should return at once. Optional.
	OnDrain func(drained bool)
	// OnFull is told of every job that had to be refused because there was no room for it: the scheduler should not have
	// sent it. It is called by the goroutine that reads from the scheduler, and should return at once. Optional.
	OnFull func(job wire.ActiveJob)
	// Grace is how long the jobs in hand may take when Run's context has ended; 30 s unless given.
	Grace time.Duration
	// HTTPClient is used to connect, to fetch audio and to upload speech, for those who need proxies or certificates of
	// their own. Optional.
	HTTPClient *http.Client
	// Log is where the node tells what it does; slog.Default unless given.
	Log *slog.Logger
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// check says what is wrong with the configuration, and where the socket may be.
func (c *Config) check() (addresses, error) {
	switch {
	case c.Slots < 1 || c.Slots > mostSlots:
		return addresses{}, fmt.Errorf("node: Slots is %d; say how many jobs the node does at once, from 1 to %d", c.Slots, mostSlots)
	case len(c.Declaration.SemanticLangs) == 0:
		return addresses{}, errors.New("node: Declaration.SemanticLangs is empty; name the languages whose speech the node understands")
	case c.ID != "" && !idPattern.MatchString(c.ID):
		return addresses{}, errors.New("node: ID may have letters, digits and . _ : - only, at most 128; or leave it empty")
	}
	all := c.URLs
	if c.URL != "" || len(all) == 0 {
		all = append([]string{c.URL}, all...)
	}
	return newAddresses(all)
}
