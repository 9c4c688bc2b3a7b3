package drill

import (
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// connectionHistory is to which instances a session or a node was connected, in order.
type connectionHistory []clustertest.Route

// connectionHistories returns the history of each session or node.
func connectionHistories(entries []journal.Entry, routes clustertest.Routes) map[string]connectionHistory {
	all := make(map[string]connectionHistory)
	for _, e := range entries {
		if e.Kind == journal.Connected {
			all[e.Source] = append(all[e.Source], clustertest.Route{At: e.At, Instance: routes.InstanceOf(e.Code, e.At)})
		}
	}
	return all
}

// at returns the instance at a time; empty: unknown.
func (h connectionHistory) at(at int64) string {
	instance := ""
	for _, route := range h {
		if route.At <= at {
			instance = route.Instance
		}
	}
	return instance
}

// countCrossInstance counts the results that came from a node on another instance. An instance that can only use its own
// nodes works well as long as it has some, so without this check a broken cluster could pass.
func (c *checker) countCrossInstance() {
	sessions, nodes := connectionHistories(c.sessions, c.routes[0]), connectionHistories(c.nodes, c.routes[1])
	type nodeAttempt struct {
		attempt
		node string
	}
	startedAt := make(map[nodeAttempt]int64)
	for _, e := range c.nodes {
		if e.Kind == journal.WorkStarted {
			startedAt[nodeAttempt{attempt{e.Job, e.Attempt}, e.Source}] = e.At
		}
	}
	for _, e := range c.sessions {
		if e.Kind != journal.Terminal || !e.OK {
			continue
		}
		at := startedAt[nodeAttempt{attempt{e.Job, e.Attempt}, e.Node}]
		from, to := nodes[e.Node].at(at), sessions[e.Source].at(at)
		if from == "" || to == "" {
			continue
		}
		if c.located++; from != to {
			c.crossInstance++
		}
	}
	if c.multiInstance && c.crossInstance == 0 {
		c.addViolation(noCrossInstance, "%d results", c.results)
	}
}
