package nodeconn

import (
	"fmt"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestMostNodesAreSilent: of four nodes with jobs and more, none is silent if more than half are. Nodes without jobs do not count.
func TestMostNodesAreSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ working, silent, want int }{
		{1, 1, 1}, {3, 3, 3}, {4, 2, 2}, {4, 3, 0}, {5, 2, 2}, {5, 3, 0}, {8, 4, 4}, {8, 8, 0},
	} {
		t.Run(fmt.Sprint(c.silent, " of ", c.working), func(t *testing.T) {
			t.Parallel()
			i := startInstance(t, newStore(), "i-a", "i-a", false)
			s := NewServer(ServerOptions{Conns: i.Conns, Presence: watchPresence})
			defer s.Close()
			now := time.Now()
			for n := range c.working + 4 {
				id := core.NodeID(fmt.Sprint("n", n))
				i.connectNode(t, id, 1)
				if n < c.working {
					i.get(id).recordSent(&wire.JobAssign{JobID: "j", AttemptID: 1, TimeoutMS: 60_000})
				}
			}
			s.findSilent(i.all(), now, false)
			now = now.Add(silenceUnknown + time.Second)
			for n := c.silent; n < c.working; n++ {
				i.get(core.NodeID(fmt.Sprint("n", n))).watch.heard = now
			}
			if got := len(s.findSilent(i.all(), now, false)); got != c.want {
				t.Errorf("%d are silent, want %d", got, c.want)
			}
		})
	}
}

// TestLinkIsRecordedInOrder: whatever happens while a state is being recorded, the last one is recorded last, by one goroutine.
func TestLinkIsRecordedInOrder(t *testing.T) {
	t.Parallel()
	n := &conn{}
	n.watch.sent = []sentJob{{at: time.Now()}}
	if n.mustRecord() {
		t.Fatal("an open connection is recorded although nothing has happened")
	}
	n.suspect()
	if !n.mustRecord() || n.mustRecord() {
		t.Fatal("one goroutine is to record")
	}
	wantNext := func(want linkState) {
		t.Helper()
		if state, _, more := n.nextLink(); !more || state != want {
			t.Fatalf("state %d, %v; want %d", state, more, want)
		}
	}
	wantNext(linkSilent)
	n.link.wanted = linkOpen // something comes, and the reply of the store does not
	n.setRecorded(linkUnknown)
	wantNext(linkOpen)
	n.lose()
	if n.mustRecord() {
		t.Error("a second goroutine is to record")
	}
	n.setRecorded(linkOpen)
	wantNext(linkLost)
	n.setRecorded(linkLost)
	if _, _, more := n.nextLink(); more {
		t.Error("more is to be recorded")
	}
	if n.mustRecord() {
		t.Error("recorded again")
	}
}
