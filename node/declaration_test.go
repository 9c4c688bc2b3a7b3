package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

func TestDeclarationReportsEachChangeOnce(t *testing.T) {
	t.Parallel()
	var d declaration
	for _, change := range []wire.Declaration{{Health: "degraded"}, {Features: []string{"tone"}}} {
		if err := d.update(&change); err != nil {
			t.Fatal(err)
		}
	}
	want := wire.Declaration{Health: "degraded", Features: []string{"tone"}}
	if diff := cmp.Diff(want, d.takeUnreported()); diff != "" {
		t.Errorf("first report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wire.Declaration{}, d.takeUnreported()); diff != "" {
		t.Errorf("second report (-want +got):\n%s", diff)
	}
	if !d.reportAgain() {
		t.Error("nothing to report again")
	}
	if diff := cmp.Diff(want, d.takeUnreported()); diff != "" {
		t.Errorf("repeated report (-want +got):\n%s", diff)
	}
	if d.sinceRegister = (wire.Declaration{}); d.reportAgain() {
		t.Error("a change that the registration contains is reported again")
	}
}

func TestInvalidChangeLeavesDeclaration(t *testing.T) {
	t.Parallel()
	d := declaration{current: wire.Declaration{Health: "ready"}}
	if err := d.update(&wire.Declaration{Health: "well"}); err == nil {
		t.Error("an invalid health was accepted")
	}
	if diff := cmp.Diff(declaration{current: wire.Declaration{Health: "ready"}}, d, cmp.AllowUnexported(declaration{})); diff != "" {
		t.Errorf("after an invalid change (-want +got):\n%s", diff)
	}
}

func TestRegistrationAppliesAck(t *testing.T) {
	t.Parallel()
	r := registration{nodeID: "n-1", epoch: 7, heartbeats: 3}
	if !r.accepts(&wire.NodeRegisterAck{NodeID: "n-1"}) || r.accepts(&wire.NodeRegisterAck{NodeID: "n-2"}) || r.accepts(&wire.NodeRegisterAck{}) {
		t.Error("an acknowledgement of another node was accepted, or one of this node refused")
	}
	r.apply(&wire.NodeRegisterAck{NodeID: "n-1", Epoch: 7, ResumeToken: "t-1"}, time.Second)
	if want := (registration{nodeID: "n-1", resumeToken: "t-1", epoch: 7, heartbeats: 3, interval: time.Second}); r != want {
		t.Errorf("resumed: %+v, want %+v", r, want)
	}
	r.apply(&wire.NodeRegisterAck{NodeID: "n-1", Epoch: 8, ResumeToken: "t-2", HeartbeatIntervalMS: 250}, time.Second)
	if want := (registration{nodeID: "n-1", resumeToken: "t-2", epoch: 8, interval: 250 * time.Millisecond}); r != want {
		t.Errorf("registered again: %+v, want %+v", r, want)
	}
}
