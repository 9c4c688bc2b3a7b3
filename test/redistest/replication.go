package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkInSync returns an error until each replica is in sync with the primary, as both ends see it.
func checkInSync(primary *Server, replicas []*Server) error {
	info, err := primary.info("replication")
	if err != nil {
		return err
	}
	if info["role"] != "master" {
		return fmt.Errorf("%s should be primary and reports the role %s", primary.Addr(), info["role"])
	}
	for _, r := range replicas {
		if err := checkOnline(info, r); err != nil {
			return fmt.Errorf("%s as primary: %w", primary.Addr(), err)
		}
		own, err := r.info("replication")
		if err != nil {
			return err
		}
		if own["role"] != "slave" || own["master_port"] != strconv.Itoa(primary.port) || own["master_link_status"] != "up" {
			return fmt.Errorf("%s should follow %s and reports: role %s, primary's port %s, link %s",
				r.Addr(), primary.Addr(), own["role"], own["master_port"], own["master_link_status"])
		}
	}
	return nil
}

// checkOnline looks for a replica in the lines of INFO replication of its primary, such as
//
//	slave0:ip=127.0.0.1,port=6380,state=online,offset=…
//
// A restarted replica may be listed twice for a while.
func checkOnline(info map[string]string, replica *Server) error {
	for key, value := range info {
		parts := strings.Split(value, ",")
		if strings.HasPrefix(key, "slave") && slices.Contains(parts, fmt.Sprintf("port=%d", replica.port)) &&
			slices.Contains(parts, "state=online") {
			return nil
		}
	}
	return fmt.Errorf("its replica %s is not online", replica.Addr())
}

// runningServers returns the servers that were not killed or stopped.
func runningServers(servers []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return !s.running() })
}

func addresses(servers []*Server) string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr()
	}
	return strings.Join(all, ",")
}
