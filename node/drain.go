package node

import "github.com/lingua-scheduler/lingua/wire"

// drain takes the operator's word that the node shall get nothing new, or shall again. It holds for this registration: the
// scheduler knows it too, and after another one the node may have missed that it was taken back.
func (n *Node) drain(l *link, d *wire.Drain) {
	n.mu.Lock()
	current := n.link == l
	news := current && n.drained != d.Drained
	if current {
		n.drained, n.shut = d.Drained, d.Drained
	}
	n.mu.Unlock()
	if news {
		n.tellDrained(d.Drained)
	}
}

// tellDrained tells the author; the node is not locked.
func (n *Node) tellDrained(drained bool) {
	n.log.Info("the operator decides about new work", "drained", drained)
	if n.cfg.OnDrain != nil {
		n.cfg.OnDrain(drained)
	}
}
