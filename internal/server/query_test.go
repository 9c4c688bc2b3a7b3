package server_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestQueriesAreChecked: a query that cannot be parsed is refused, and so is a parameter that a route which changes something does not have.
func TestQueriesAreChecked(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{})
	for _, query := range []string{"dry_run=true;", "dry_run=%zz", "dry_run=true;x=1", ";dry_run=true", "dryrun=true", "dry_run=yes", "dry_run=true&dry_run=false"} {
		ts.requestWith(nil, "POST", "/v1/nodes/n1/drain?"+query, nil).expectError(wire.InvalidRequest)
	}
	bulk := object{"filter": object{"search": "n1"}, "expect": 1}
	for path, body := range map[string]any{
		"/v1/nodes/drain": bulk, "/v1/nodes/resume": bulk, "/v1/jobs/cancel": object{"filter": object{"until": 1}, "expect": 0}, "/v1/nodes/n1/resume": nil, "/v1/nodes/n1/probe": nil,
	} {
		ts.requestWith(nil, "POST", path+"?dry_run=true", body).expectError(wire.InvalidRequest)
	}
	ts.get("/v1/nodes/table?state=offline;").expectError(wire.InvalidRequest)
	ts.get("/v1/jobs?limit=%zz").expectError(wire.InvalidRequest)
	var n wire.Node
	ts.get("/v1/nodes/n1").decode(&n)
	if n.Drained {
		t.Error("a refused request has drained the node")
	}
}
