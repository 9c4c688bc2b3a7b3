package redistest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
)

// opinion is how one sentinel sees the primary and its replicas.
type opinion struct {
	primary *Server
	epoch   int64 // of two opinions, the one with the higher is newer
	flags   string
	others  string // how many other sentinels it knows
}

func (s *Sentinel) ask(sentinel *Server) (opinion, error) {
	reply, err := sentinel.Do("SENTINEL", "MASTER", primaryName)
	if err != nil {
		return opinion{}, fmt.Errorf("the sentinel %s: %w", sentinel.Addr(), err)
	}
	said := pairs(reply)
	epoch, err := strconv.ParseInt(said["config-epoch"], 10, 64)
	if err != nil {
		return opinion{}, fmt.Errorf("the sentinel %s has no epoch: %w", sentinel.Addr(), err)
	}
	addr := net.JoinHostPort(said["ip"], said["port"])
	i := slices.IndexFunc(s.servers, func(server *Server) bool { return server.Addr() == addr })
	if i < 0 {
		return opinion{}, fmt.Errorf("the sentinel %s names %s as primary, which is no server of ours", sentinel.Addr(), addr)
	}
	return opinion{primary: s.servers[i], epoch: epoch, flags: said["flags"], others: said["num-other-sentinels"]}, nil
}

// missing says what is not yet as it should be.
func (s *Sentinel) missing() error {
	var primary *Server
	for _, sentinel := range atWork(s.sentinels) {
		o, err := s.ask(sentinel)
		switch {
		case err != nil:
			return err
		case primary != nil && o.primary != primary:
			return fmt.Errorf("one sentinel names %s as primary, another %s", primary.Addr(), o.primary.Addr())
		case !o.primary.running():
			return fmt.Errorf("the sentinel %s still names %s as primary, which does not run", sentinel.Addr(), o.primary.Addr())
		case o.flags != "master":
			return fmt.Errorf("the sentinel %s sees the primary as %s", sentinel.Addr(), o.flags)
		case o.others != strconv.Itoa(len(s.sentinels)-1):
			return fmt.Errorf("the sentinel %s knows %s others", sentinel.Addr(), o.others)
		}
		primary = o.primary
		if err := s.seesReplicas(sentinel, primary); err != nil {
			return err
		}
	}
	if primary == nil {
		return errors.New("no sentinel is running")
	}
	return inSync(primary, s.replicasOf(primary))
}

// seesReplicas says what is missing until a sentinel would promote any of the running replicas.
func (s *Sentinel) seesReplicas(sentinel, primary *Server) error {
	reply, err := sentinel.Do("SENTINEL", "REPLICAS", primaryName)
	if err != nil {
		return fmt.Errorf("the sentinel %s: %w", sentinel.Addr(), err)
	}
	list, _ := reply.([]any)
	seen := make(map[string]map[string]string)
	for _, entry := range list {
		said := pairs(entry)
		seen[net.JoinHostPort(said["ip"], said["port"])] = said
	}
	for _, r := range s.replicasOf(primary) {
		said := seen[r.Addr()]
		if said["flags"] != "slave" || said["master-link-status"] != "ok" || said["master-port"] != strconv.Itoa(primary.port) {
			return fmt.Errorf("the sentinel %s sees the replica %s as %q, its link as %q",
				sentinel.Addr(), r.Addr(), said["flags"], said["master-link-status"])
		}
	}
	return nil
}

// replicasOf are the running servers but the primary.
func (s *Sentinel) replicasOf(primary *Server) []*Server {
	return slices.DeleteFunc(atWork(s.servers), func(r *Server) bool { return r == primary })
}

// pairs reads a reply that lists keys and values in turn.
func pairs(reply any) map[string]string {
	list, _ := reply.([]any)
	found := make(map[string]string)
	for pair := range slices.Chunk(list, 2) {
		if len(pair) == 2 {
			found[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
		}
	}
	return found
}
