package redistest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"
)

// primaryGroup is the name of the primary in the configuration of the sentinels.
const primaryGroup = "mymaster"

// Sentinel is a primary with two replicas, and three sentinels with a quorum of two.
type Sentinel struct {
	tb        testing.TB
	servers   []*Server
	sentinels []*Server
	former    *Server // the primary before the last FailOver
}

// StartSentinel starts them and returns when both replicas are online and the sentinels know them and each other. A dead
// primary is replaced after two or three seconds, and four seconds later if the votes of the sentinels are split. The options
// are those of the primary and the replicas.
func StartSentinel(tb testing.TB, options ...Option) *Sentinel {
	tb.Helper()
	s := &Sentinel{tb: tb}
	start := func(more ...setting) *Server {
		cfg := serverConfig{settings: append(replicationSettings(), more...)}
		for _, o := range options {
			o(&cfg)
		}
		return startServer(tb, cfg)
	}
	primary := start()
	s.servers = append(s.servers, primary)
	for range 2 {
		s.servers = append(s.servers, start(setting{"replicaof", "127.0.0.1 " + strconv.Itoa(primary.port)}))
	}
	eventually(tb, startTimeout, func() error { return checkInSync(primary, s.servers[1:]) })
	for range 3 {
		s.sentinels = append(s.sentinels, startServer(tb, sentinelFor(primary)))
	}
	s.WaitHealthy(startTimeout)
	return s
}

// sentinelFor is the configuration of a sentinel with short intervals. The configuration file limits them, but a command
// can make them shorter: how often the sentinel pings the servers, reads their INFO, asks the other sentinels, and
// publishes its own state. A former primary becomes a replica after four times the last interval. The ping interval must
// not be much shorter: a replica that did not answer five pings is not promoted, and the machine may be busy.
func sentinelFor(primary *Server) serverConfig {
	return serverConfig{
		settings: []setting{
			{"sentinel monitor", primaryGroup + " 127.0.0.1 " + strconv.Itoa(primary.port) + " 2"},
			{"sentinel down-after-milliseconds", primaryGroup + " 1000"},
			{"sentinel failover-timeout", primaryGroup + " 2000"},
			{"sentinel parallel-syncs", primaryGroup + " 1"},
		},
		flags: []string{"--sentinel"},
		startCommand: []string{
			"SENTINEL", "DEBUG", "ping-period", "500", "info-period", "500", "ask-period", "200",
			"publish-period", publishPeriod, "tilt-period", "2000",
		},
	}
}

// publishPeriod is how often a sentinel publishes its own state, in milliseconds.
const publishPeriod = "250"

func (s *Sentinel) setPublishPeriod(ms string) {
	s.tb.Helper()
	for _, sentinel := range runningServers(s.sentinels) {
		sentinel.mustDo("SENTINEL", "DEBUG", "publish-period", ms)
	}
}

// neverDead is after how long a silent server is taken for dead where no server dies.
const neverDead = 10 * time.Minute

// WithoutFailover makes no sentinel take the primary for dead, for tests in which it lives, on a machine that may be slow. It returns s.
func (s *Sentinel) WithoutFailover() *Sentinel {
	s.tb.Helper()
	for _, sentinel := range s.sentinels {
		sentinel.mustDo("SENTINEL", "SET", primaryGroup, "down-after-milliseconds", strconv.FormatInt(neverDead.Milliseconds(), 10))
	}
	return s
}

// URL returns the store URL, with the addresses of all sentinels and the name of the primary.
func (s *Sentinel) URL() string {
	return "redis-sentinel://" + addresses(s.sentinels) + "/" + primaryGroup + "/0"
}

// Servers returns the primary and the replicas.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Sentinels returns the three sentinels.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Primary returns the server that the sentinels regard as primary. For some seconds after its death it is still the dead
// server.
func (s *Sentinel) Primary() *Server {
	s.tb.Helper()
	var newest sentinelView
	for _, sentinel := range runningServers(s.sentinels) {
		o, err := s.viewOf(sentinel)
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

// KillPrimary kills the primary and returns it. After WaitHealthy it can be restarted, and becomes a replica.
func (s *Sentinel) KillPrimary() *Server {
	s.tb.Helper()
	primary := s.Primary()
	primary.Kill()
	return primary
}

// FailOver makes a replica the primary while the old primary runs, as an operator does before maintenance. It returns when a
// sentinel names the new one. The old one still regards itself as primary then, for eight seconds or until WaitHealthy.
func (s *Sentinel) FailOver() {
	s.tb.Helper()
	s.setPublishPeriod("2000") // the default: the old primary becomes a replica after four times this time
	old := s.Primary()
	s.former = old
	eventually(s.tb, startTimeout, func() error { // a sentinel refuses while another failover is in progress
		_, err := runningServers(s.sentinels)[0].Do("SENTINEL", "FAILOVER", primaryGroup)
		return err
	})
	eventually(s.tb, startTimeout, func() error {
		if s.Primary() == old {
			return fmt.Errorf("%s is still the primary", old.Addr())
		}
		return nil
	})
}

// KeepOldPrimary makes the primary before FailOver regard itself as primary for longer than a test takes, as soon as no sentinel names it
// any more: they learn from what they publish.
func (s *Sentinel) KeepOldPrimary() {
	s.tb.Helper()
	eventually(s.tb, startTimeout, func() error {
		for _, sentinel := range runningServers(s.sentinels) {
			o, err := s.viewOf(sentinel)
			switch {
			case err != nil:
				return err
			case o.primary == s.former:
				return fmt.Errorf("the sentinel %s still names %s as primary", sentinel.Addr(), o.primary.Addr())
			}
		}
		return nil
	})
	s.setPublishPeriod("600000")
}

// WaitHealthy waits until all sentinels name the same running server as primary and all other running servers are its
// replicas. It does not wait for servers that were killed or stopped.
func (s *Sentinel) WaitHealthy(timeout time.Duration) {
	s.tb.Helper()
	s.setPublishPeriod(publishPeriod)
	eventually(s.tb, timeout, s.checkHealth)
}

// sentinelView is how one sentinel sees the primary.
type sentinelView struct {
	primary        *Server
	epoch          int64 // the view with the higher epoch is newer
	flags          string
	otherSentinels string // how many other sentinels it knows
}

func (s *Sentinel) viewOf(sentinel *Server) (sentinelView, error) {
	reply, err := sentinel.Do("SENTINEL", "MASTER", primaryGroup)
	if err != nil {
		return sentinelView{}, fmt.Errorf("the sentinel %s: %w", sentinel.Addr(), err)
	}
	fields := parsePairs(reply)
	epoch, err := strconv.ParseInt(fields["config-epoch"], 10, 64)
	if err != nil {
		return sentinelView{}, fmt.Errorf("the sentinel %s has no epoch: %w", sentinel.Addr(), err)
	}
	addr := net.JoinHostPort(fields["ip"], fields["port"])
	i := slices.IndexFunc(s.servers, func(server *Server) bool { return server.Addr() == addr })
	if i < 0 {
		return sentinelView{}, fmt.Errorf("the sentinel %s names %s as primary, which is not a server of this group", sentinel.Addr(), addr)
	}
	return sentinelView{primary: s.servers[i], epoch: epoch, flags: fields["flags"], otherSentinels: fields["num-other-sentinels"]}, nil
}

// checkHealth returns why the group is not healthy, or nil.
func (s *Sentinel) checkHealth() error {
	var primary *Server
	for _, sentinel := range runningServers(s.sentinels) {
		o, err := s.viewOf(sentinel)
		switch {
		case err != nil:
			return err
		case primary != nil && o.primary != primary:
			return fmt.Errorf("one sentinel names %s as primary, another %s", primary.Addr(), o.primary.Addr())
		case !o.primary.running():
			return fmt.Errorf("the sentinel %s still names %s as primary, which does not run", sentinel.Addr(), o.primary.Addr())
		case o.flags != "master":
			return fmt.Errorf("the sentinel %s sees the primary as %s", sentinel.Addr(), o.flags)
		case o.otherSentinels != strconv.Itoa(len(s.sentinels)-1):
			return fmt.Errorf("the sentinel %s knows %s others", sentinel.Addr(), o.otherSentinels)
		}
		primary = o.primary
		if err := s.checkReplicas(sentinel, primary); err != nil {
			return err
		}
	}
	if primary == nil {
		return errors.New("no sentinel is running")
	}
	return checkInSync(primary, s.runningReplicas(primary))
}

// checkReplicas returns an error until a sentinel would promote any of the running replicas.
func (s *Sentinel) checkReplicas(sentinel, primary *Server) error {
	reply, err := sentinel.Do("SENTINEL", "REPLICAS", primaryGroup)
	if err != nil {
		return fmt.Errorf("the sentinel %s: %w", sentinel.Addr(), err)
	}
	list, _ := reply.([]any)
	seen := make(map[string]map[string]string)
	for _, entry := range list {
		fields := parsePairs(entry)
		seen[net.JoinHostPort(fields["ip"], fields["port"])] = fields
	}
	for _, r := range s.runningReplicas(primary) {
		fields := seen[r.Addr()]
		if fields["flags"] != "slave" || fields["master-link-status"] != "ok" || fields["master-port"] != strconv.Itoa(primary.port) {
			return fmt.Errorf("the sentinel %s sees the replica %s as %q, its link as %q",
				sentinel.Addr(), r.Addr(), fields["flags"], fields["master-link-status"])
		}
	}
	return nil
}

// runningReplicas returns the running servers except for the primary.
func (s *Sentinel) runningReplicas(primary *Server) []*Server {
	return slices.DeleteFunc(runningServers(s.servers), func(r *Server) bool { return r == primary })
}

// parsePairs parses a reply that lists keys and values in turn.
func parsePairs(reply any) map[string]string {
	list, _ := reply.([]any)
	found := make(map[string]string)
	for pair := range slices.Chunk(list, 2) {
		if len(pair) == 2 {
			found[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
		}
	}
	return found
}
