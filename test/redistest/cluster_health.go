package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkMembers returns an error if a running node does not see another one as healthy.
func (c *Cluster) checkMembers() error {
	for _, node := range runningServers(c.nodes) {
		view, err := node.view()
		if err != nil {
			return err
		}
		for _, other := range runningServers(c.nodes) {
			if !view[c.ids[other]].isHealthy() {
				return fmt.Errorf("%s sees %s as %v", node.Addr(), other.Addr(), view[c.ids[other]].flags)
			}
		}
	}
	return nil
}

// checkHealth returns why the cluster is not healthy, or nil.
func (c *Cluster) checkHealth() error {
	if err := c.checkMembers(); err != nil {
		return err
	}
	var first *Server
	var agreed [slotCount]string
	for _, node := range runningServers(c.nodes) {
		info, err := node.doText("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		if state := parseInfo(info)["cluster_state"]; state != "ok" {
			return fmt.Errorf("%s reports the cluster state %s", node.Addr(), state)
		}
		view, err := node.view()
		if err != nil {
			return err
		}
		owners := ownersIn(view)
		if first == nil {
			first, agreed = node, owners
		}
		if owners != agreed {
			return fmt.Errorf("%s has another view of the slots than %s", node.Addr(), first.Addr())
		}
		if err := c.checkRole(node, view); err != nil {
			return err
		}
	}
	return c.checkOwnersRun(&agreed)
}

// ownersIn returns the id of the owner of each slot.
func ownersIn(view map[string]member) (owners [slotCount]string) {
	for id, m := range view {
		for _, s := range m.slots {
			for slot := s.from; slot <= s.to; slot++ {
				owners[slot] = id
			}
		}
	}
	return owners
}

// checkRole returns an error if a node neither owns slots nor is a replica of a node that does.
func (c *Cluster) checkRole(node *Server, view map[string]member) error {
	own := view[c.ids[node]]
	if own.primaryID == "" {
		if len(own.slots) == 0 {
			return fmt.Errorf("%s is a primary without slots", node.Addr())
		}
		return nil
	}
	primary := c.byID(own.primaryID)
	if primary == nil || !primary.running() || len(view[own.primaryID].slots) == 0 {
		return fmt.Errorf("%s follows a node that does not run or owns nothing", node.Addr())
	}
	return checkInSync(primary, []*Server{node})
}

// checkOwnersRun returns an error if the owner of a slot does not run.
func (c *Cluster) checkOwnersRun(owners *[slotCount]string) error {
	for slot, id := range owners {
		if owner := c.byID(id); owner == nil || !owner.running() {
			return fmt.Errorf("no running node owns slot %d", slot)
		}
	}
	return nil
}

func (c *Cluster) byID(id string) *Server {
	i := slices.IndexFunc(c.nodes, func(node *Server) bool { return c.ids[node] == id })
	if i < 0 {
		return nil
	}
	return c.nodes[i]
}

// slotRange is a range of slots, both ends included.
type slotRange struct{ from, to int }

// member is a node as another node sees it: a line of CLUSTER NODES.
type member struct {
	flags     []string
	primaryID string // empty for a primary
	epoch     int64
	connected bool
	slots     []slotRange
}

// view returns how a node sees the cluster, by node id.
func (s *Server) view() (map[string]member, error) {
	text, err := s.doText("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	view := make(map[string]member)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 {
			return nil, fmt.Errorf("a line of CLUSTER NODES: %q", line)
		}
		m := member{flags: strings.Split(words[2], ","), primaryID: strings.Trim(words[3], "-")}
		if m.epoch, err = strconv.ParseInt(words[6], 10, 64); err != nil {
			return nil, fmt.Errorf("a line of CLUSTER NODES: %q", line)
		}
		m.connected = words[7] == "connected"
		for _, word := range words[8:] {
			if strings.HasPrefix(word, "[") {
				continue // a migrating slot, which is also listed with its owner
			}
			s, err := parseSlotRange(word)
			if err != nil {
				return nil, err
			}
			m.slots = append(m.slots, s)
		}
		view[words[0]] = m
	}
	return view, nil
}

// parseSlotRange parses "0-5460" or "7".
func parseSlotRange(word string) (slotRange, error) {
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.Atoi(first)
	if err != nil {
		return slotRange{}, fmt.Errorf("slots of CLUSTER NODES: %w", err)
	}
	to, err := strconv.Atoi(last)
	if err != nil {
		return slotRange{}, fmt.Errorf("slots of CLUSTER NODES: %w", err)
	}
	return slotRange{from, to}, nil
}

// isHealthy reports whether a member is connected and not failing.
func (m member) isHealthy() bool {
	return m.connected && !slices.ContainsFunc(m.flags, func(flag string) bool {
		return flag == "fail" || flag == "fail?" || flag == "handshake" || flag == "noaddr"
	})
}
