package nodeconn

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// missedACKs returns the directions of the jobs that a check finds missed, by node.
func (i *instance) missedACKs() map[core.NodeID][]string {
	missed := make(map[core.NodeID][]string)
	i.MissedACKs(func(m dispatch.MissedACK) { missed[m.Node] = append(missed[m.Node], m.Direction.String()) })
	return missed
}

// TestMissedACKs: the instance to which a node is connected reports once what it has sent to the node and what the node has not answered,
// for whichever instance it was. Any message about a job is an answer.
func TestMissedACKs(t *testing.T) {
	t.Parallel()
	send := map[string]func(a, b *instance, job *wire.Assignment) error{
		"of this instance": func(_, b *instance, job *wire.Assignment) error { return b.Deliver(t.Context(), node("i-b"), job) },
		"of another one":   func(a, _ *instance, job *wire.Assignment) error { return a.Deliver(t.Context(), node("i-b"), job) },
	}
	for name, deliver := range send {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStore()
			a, b := startInstance(t, st, "i-a", "i-b", true), startInstance(t, st, "i-b", "i-b", true)
			b.ACKTimeout = 1 // every job is late at the first check
			n := b.connectNode(t, "n", 2)
			answered, probe, missed := assignment(""), assignment(""), assignment("")
			answered.JobID, probe.JobID, probe.Probe, probe.AudioRef = "answered", "probe", true, wire.ProbeAudio
			for _, job := range []*wire.Assignment{answered, probe, missed} {
				if err := deliver(a, b, job); err != nil {
					t.Fatal(err)
				}
				n.read(new(wire.JobAssign))
			}
			waitWritten(t, b.get("n"))
			if got := b.missedACKs(); len(got) != 0 {
				t.Errorf("the first check reports %v: what the node has sent may not have been read", got)
			}
			if _, e := b.get("n").reportOf(&wire.ActiveJob{JobID: answered.JobID, AttemptID: answered.AttemptID}); e != nil {
				t.Fatal(e)
			}
			if diff := cmp.Diff(map[core.NodeID][]string{"n": {"en→zh"}}, b.missedACKs()); diff != "" {
				t.Errorf("the second check (-want +got):\n%s", diff)
			}
			for _, i := range []*instance{a, b} {
				if got := i.missedACKs(); len(got) != 0 {
					t.Errorf("reported again, or by another instance: %v", got)
				}
			}
		})
	}
}

// TestMissedACKOfAMovedJob: that the job moved and the node was told to stop it does not excuse the node.
func TestMissedACKOfAMovedJob(t *testing.T) {
	t.Parallel()
	i := startInstance(t, newStore(), "i-a", "i-a", false)
	i.ACKTimeout = 1
	i.connectNode(t, "n", 2)
	job := assignment("")
	if err := i.Deliver(t.Context(), node("i-a"), job); err != nil {
		t.Fatal(err)
	}
	i.missedACKs()
	i.Cancel(t.Context(), "n", core.JobID(job.JobID), job.AttemptID)
	waitWritten(t, i.get("n"))
	if diff := cmp.Diff(map[core.NodeID][]string{"n": {"en→zh"}}, i.missedACKs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMissedACKsOfALostConnection: what was sent over a connection that is lost may not have reached the node.
func TestMissedACKsOfALostConnection(t *testing.T) {
	t.Parallel()
	i := startInstance(t, newStore(), "i-a", "i-a", false)
	i.ACKTimeout = 1
	i.connectNode(t, "n", 2)
	if err := i.Deliver(t.Context(), node("i-a"), assignment("")); err != nil {
		t.Fatal(err)
	}
	i.missedACKs()
	i.remove(i.get("n"))
	if got := i.missedACKs(); len(got) != 0 {
		t.Errorf("reported: %v", got)
	}
}

// waitWritten waits until everything is written to a connection.
func waitWritten(t *testing.T, n *conn) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !n.ws.AllWritten(); {
		if time.Now().After(end) {
			t.Fatal("a frame that was read is not written")
		}
	}
}
