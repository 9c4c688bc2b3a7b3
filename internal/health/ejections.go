package health

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// maxRemembered bounds the nodes whose ejections are remembered after they have left.
const maxRemembered = 1000

// pastEjections remembers how often nodes were ejected in a row. A node has that number in its record, which is gone when it leaves:
// without this, a node that fails and registers again would always be ejected for the shortest time. It is of one instance: another one
// that leads begins with what the records say. It is used by one goroutine.
type pastEjections map[core.NodeID]pastEjection

type pastEjection struct {
	times int
	seen  time.Time // when the record of the node last said so
}

// remember notes how often a node was ejected. If there are too many, the one that was seen longest ago is forgotten.
func (p pastEjections) remember(id core.NodeID, times int, now time.Time) {
	if _, known := p[id]; !known && len(p) >= maxRemembered {
		oldest := id
		for other, e := range p {
			if oldest == id || e.seen.Before(p[oldest].seen) {
				oldest = other
			}
		}
		delete(p, oldest)
	}
	p[id] = pastEjection{times, now}
}

// forgetOld forgets the nodes whose records have not said for long that they were ejected.
func (p pastEjections) forgetOld(now time.Time) {
	for id, e := range p {
		if now.Sub(e.seen) >= forgetAfter {
			delete(p, id)
		}
	}
}
