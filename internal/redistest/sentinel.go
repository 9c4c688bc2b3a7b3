package redistest

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// primaryName is what the sentinels call the primary they watch over.
const primaryName = "mymaster"

// Sentinel is a primary with two replicas, and three sentinels of which two must agree.
type Sentinel struct {
	tb        testing.TB
	servers   []*Server
	sentinels []*Server
}

// StartSentinel returns when both replicas are online and the sentinels know each other and them. A primary that
// dies is replaced two or three seconds later, and four seconds after that if the sentinels' votes are split.
func StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	s := &Sentinel{tb: tb}
	primary := build(tb, blueprint{settings: replicated()})
	s.servers = append(s.servers, primary)
	for range 2 {
		follow := setting{"replicaof", "127.0.0.1 " + strconv.Itoa(primary.port)}
		s.servers = append(s.servers, build(tb, blueprint{settings: append(replicated(), follow)}))
	}
	eventually(tb, startTimeout, func() error { return inSync(primary, s.servers[1:]) })
	for range 3 {
		s.sentinels = append(s.sentinels, build(tb, sentinelFor(primary)))
	}
	s.WaitHealthy(startTimeout)
	return s
}

// sentinelFor is a sentinel in a hurry. A configuration file cannot make it so beyond a point, but a command can:
// how often it pings the servers and asks them for news, asks the other sentinels for their opinion, and tells of
// itself. It takes four times the last for a former primary to be made a replica. The first must not be much
// shorter: a replica that answered nothing for five pings is not promoted, and the machine may be busy.
func sentinelFor(primary *Server) blueprint {
	return blueprint{
		settings: []setting{
			{"sentinel monitor", primaryName + " 127.0.0.1 " + strconv.Itoa(primary.port) + " 2"},
			{"sentinel down-after-milliseconds", primaryName + " 1000"},
			{"sentinel failover-timeout", primaryName + " 2000"},
			{"sentinel parallel-syncs", primaryName + " 1"},
		},
		flags: []string{"--sentinel"},
		first: []string{"SENTINEL", "DEBUG", "ping-period", "500", "info-period", "500", "ask-period", "200", "publish-period", "250", "tilt-period", "2000"},
	}
}

// URL names all sentinels and the primary they watch over.
func (s *Sentinel) URL() string {
	return "redis-sentinel://" + addresses(s.sentinels) + "/" + primaryName + "/0"
}

// Servers are the primary and the replicas, whoever is which.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Sentinels are the three that watch.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Primary is the server that the sentinels hold for the primary now. For some seconds after its death that is
// still the dead one.
func (s *Sentinel) Primary() *Server {
	s.tb.Helper()
	var newest opinion
	for _, sentinel := range atWork(s.sentinels) {
		o, err := s.ask(sentinel)
		if err != nil {
			s.tb.Fatal(err)
		}
		if newest.primary == nil || o.epoch > newest.epoch {
			newest = o
		}
	}
	if newest.primary == nil {
		s.tb.Fatal("no sentinel is running")
	}
	return newest.primary
}

// KillPrimary kills the primary and returns it. Restart it after WaitHealthy, and it comes back as a replica.
func (s *Sentinel) KillPrimary() *Server {
	s.tb.Helper()
	primary := s.Primary()
	primary.Kill()
	return primary
}

// WaitHealthy waits until all sentinels name the same running server as primary and all others that run
// follow it. A server that was killed or stopped is not waited for.
func (s *Sentinel) WaitHealthy(timeout time.Duration) {
	s.tb.Helper()
	eventually(s.tb, timeout, s.missing)
}
