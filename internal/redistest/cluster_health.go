package redistest

import (
	"fmt"
	"slices"
)

// acquainted says who does not yet know whom.
func (c *Cluster) acquainted() error {
	for _, node := range atWork(c.nodes) {
		view, err := node.view()
		if err != nil {
			return err
		}
		for _, other := range atWork(c.nodes) {
			if !view[c.ids[other]].well() {
				return fmt.Errorf("%s sees %s as %v", node.Addr(), other.Addr(), view[c.ids[other]].flags)
			}
		}
	}
	return nil
}

// missing says what is not yet as it should be.
func (c *Cluster) missing() error {
	if err := c.acquainted(); err != nil {
		return err
	}
	var first *Server
	var agreed [slots]string
	for _, node := range atWork(c.nodes) {
		info, err := node.text("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		if state := fields(info)["cluster_state"]; state != "ok" {
			return fmt.Errorf("%s says that the cluster's state is %s", node.Addr(), state)
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
		if err := c.placed(node, view); err != nil {
			return err
		}
	}
	return c.ownersRun(&agreed)
}

// ownersIn is the owner's id of each slot.
func ownersIn(view map[string]member) (owners [slots]string) {
	for id, m := range view {
		for _, s := range m.spans {
			for slot := s.from; slot <= s.to; slot++ {
				owners[slot] = id
			}
		}
	}
	return owners
}

// placed says what is missing until a node either owns slots or follows a node that does.
func (c *Cluster) placed(node *Server, view map[string]member) error {
	own := view[c.ids[node]]
	if own.primaryID == "" {
		if len(own.spans) == 0 {
			return fmt.Errorf("%s is a primary without slots", node.Addr())
		}
		return nil
	}
	primary := c.byID(own.primaryID)
	if primary == nil || !primary.running() || len(view[own.primaryID].spans) == 0 {
		return fmt.Errorf("%s follows a node that does not run or owns nothing", node.Addr())
	}
	return inSync(primary, []*Server{node})
}

// ownersRun says which slot is owned by a node that does not run.
func (c *Cluster) ownersRun(owners *[slots]string) error {
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
