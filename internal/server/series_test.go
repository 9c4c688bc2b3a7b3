package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestSeriesOverHTTP checks that the series of the cluster and of a node arrive, and count what happened.
func TestSeriesOverHTTP(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.done(d, object{"result": object{"text_tgt": "x"}})
	var cluster wire.ClusterSeries
	ts.eventually("a point of the cluster with the job", func() bool {
		ts.get("/api/v1/series").decode(&cluster)
		done := int64(0)
		for _, p := range cluster.Points {
			done += p.Done
		}
		return done == 1
	})
	last := cluster.Points[len(cluster.Points)-1]
	if last.Ready != 1 || last.Slots == 0 || last.Instances != 1 || cluster.IntervalMS != 5000 {
		t.Errorf("the last point is %+v", last)
	}
	var node wire.NodeSeries
	ts.eventually("a point of the node with the job", func() bool {
		ts.get("/v1/nodes/n1/series").decode(&node)
		done := 0
		for _, p := range node.Points {
			done += p.Done
		}
		return done == 1
	})
	if p := node.Points[len(node.Points)-1]; p.State != "ready" || p.Slots == 0 || node.IntervalMS != 5000 || node.NodeID != "n1" || node.Incomplete != nil {
		t.Errorf("the series of the node is %+v, with the point %+v", node, p)
	}
	ts.get(fmt.Sprint("/v1/nodes/n1/series?from=", node.Points[len(node.Points)-1].AtMS+1_000_000)).decode(&node)
	if len(node.Points) != 0 {
		t.Errorf("%d points are in the future", len(node.Points))
	}
}

// TestInvalidSeriesQueries checks forged and long parameters, and unknown nodes.
func TestInvalidSeriesQueries(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	for _, query := range []string{"from=x", "from=-1", "from=9223372036854775807", "from=" + strings.Repeat("1", 20_000), "until=1", "from=1&step=1"} {
		ts.get("/api/v1/series?" + query).expectError(wire.InvalidRequest)
		ts.get("/v1/nodes/n1/series?" + query).expectError(wire.InvalidRequest)
	}
	ts.get("/v1/nodes/n1/series?scope=all").expectError(wire.InvalidRequest)
	ts.get("/api/v1/series?scope=here").expectError(wire.InvalidRequest)
	ts.get("/v1/nodes/a%20b/series").expectError(wire.InvalidRequest)
	ts.get("/v1/nodes/unknown/series").expectError(wire.NotFound)
	var here wire.NodeSeries
	ts.get("/v1/nodes/unknown/series?scope=here").decode(&here)
	if len(here.Points) != 0 {
		t.Errorf("an unknown node has %d points", len(here.Points))
	}
}
