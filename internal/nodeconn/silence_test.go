package nodeconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestMostNodesAreSilent: of four nodes with jobs and more, none is silent if more than half are. Nodes without jobs do not count.
func TestMostNodesAreSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ working, silent, quiet, want int }{
		{1, 1, 0, 1}, {3, 3, 0, 3}, {4, 2, 0, 2}, {4, 3, 0, 0}, {5, 2, 0, 2}, {5, 3, 0, 0}, {8, 4, 0, 4}, {8, 8, 0, 0}, {8, 1, 4, 0}, {8, 1, 3, 1},
	} {
		t.Run(fmt.Sprint(c.silent, " and ", c.quiet, " of ", c.working), func(t *testing.T) {
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
			for range (silenceUnknown + time.Second) / silenceInterval {
				now = now.Add(silenceInterval)
				for n := range c.working {
					watch := &i.get(core.NodeID(fmt.Sprint("n", n))).watch
					watch.pinged = now // no ping is sent, which would be written in the time of the machine
					switch {
					case n >= c.silent+c.quiet:
						watch.heard = now
					case n >= c.silent:
						watch.heard = now.Add(-silenceUnknown / 2)
					}
				}
				s.findSilent(i.all(), now, false)
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
	if !n.suspect(false) || n.mustRecord() {
		t.Fatal("one goroutine is to record")
	}
	wantNext := func(want linkState) {
		t.Helper()
		if state, _, more := n.nextLink(); !more || state != want {
			t.Fatalf("state %d, %v; want %d", state, more, want)
		}
	}
	wantNext(linkSilent)
	n.link.want(linkOpen) // something comes, and the reply of the store does not
	n.setRecorded(linkUnknown)
	wantNext(linkOpen)
	n.lose()
	if n.mustRecord() {
		t.Error("a second goroutine is to record")
	}
	n.setRecorded(linkOpen)
	wantNext(linkLost)
	n.setRecorded(linkLost)
	n.link.want(linkOpen) // from a check that began before the end
	if _, _, more := n.nextLink(); more {
		t.Error("more is to be recorded")
	}
	if n.mustRecord() {
		t.Error("recorded again")
	}
}

// TestSilentConnections: a connection is not silent while its reader handles what has come, nor when its job has ended.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	i := startInstance(t, newStore(), "i-a", "i-a", false)
	s := NewServer(ServerOptions{Conns: i.Conns, Presence: watchPresence})
	defer s.Close()
	i.connectNode(t, "n", 1)
	n, now := i.get("n"), time.Now()
	after := func(d time.Duration) (silent bool) {
		for range d / silenceInterval {
			now = now.Add(silenceInterval)
			silent = len(s.findSilent(i.all(), now, false)) > 0
			waitWritten(t, n)
		}
		return silent
	}
	for count := range 2 {
		job := wire.ActiveJob{JobID: "first", AttemptID: 1}
		n.recordSent(&wire.JobAssign{JobID: job.JobID, AttemptID: job.AttemptID, TimeoutMS: 60_000})
		after(silenceInterval)
		if n.recordAnswer(job); n.watch.answers != count+1 {
			t.Errorf("%d answers, want %d", n.watch.answers, count+1)
		}
		n.recordEnd(job)
		after(10 * time.Second)
	}
	n.recordSent(&wire.JobAssign{JobID: "j", AttemptID: 1, TimeoutMS: 60_000})
	n.handling.Store(true)
	if after(time.Minute) {
		t.Error("silent while its reader handles something")
	}
	n.handling.Store(false)
	if !after(silenceUnknown + time.Second) {
		t.Error("not silent")
	}
	n.recordEnd(wire.ActiveJob{JobID: "j", AttemptID: 1})
	if after(time.Second) {
		t.Error("silent although its job has ended")
	}
}

// connectStore is a store whose replies to Connect a test decides.
type connectStore struct {
	*memstore.Store
	reply func(p store.ConnectParams) error // after the call
}

// Connect implements store.Nodes.
func (s *connectStore) Connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	n, err := s.Store.Connect(ctx, p)
	return n, errors.Join(err, s.reply(p))
}

// TestRecordOfALinkSurvivesErrors: whichever reply of the store is lost, the store has the last state of a connection in the end.
func TestRecordOfALinkSurvivesErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		meanwhile    func(i *instance, n *conn) // while the store records that the node is silent
		disconnected bool
		silent       bool
	}{
		{"nothing else happens", func(*instance, *conn) {}, true, true},
		{"something comes", func(_ *instance, n *conn) { n.link.want(linkOpen) }, false, false},
		{"the connection ends", func(i *instance, n *conn) {
			i.remove(n)
			n.lose()
		}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := &connectStore{Store: newStore()}
			i := startInstance(t, st.Store, "i-a", "i-a", false)
			i.connectNode(t, "n", 1)
			n := i.get("n")
			r, err := st.Register(t.Context(), store.RegisterParams{Node: core.Node{ID: "n", Declaration: core.Declaration{Health: core.HealthReady, Owner: "i-a"}}, Load: core.UnknownLoad, Connection: n.connection})
			if err != nil {
				t.Fatal(err)
			}
			n.epoch = r.Node.Epoch
			log := slog.New(slog.DiscardHandler)
			s := NewServer(ServerOptions{
				Instance: "i-a", Conns: i.Conns, Presence: watchPresence, Log: log,
				Nodes: nodes.New(nodes.Config{Instance: "i-a"}, st, fleet.New(watchPresence), nodes.Jobs{}, telemetry.New(), log),
			})
			defer s.Close()
			calls := 0
			st.reply = func(store.ConnectParams) error {
				if calls++; calls > 1 {
					return nil
				}
				c.meanwhile(i, n)
				return store.ErrDown
			}
			n.watch.sent = []sentJob{{at: time.Now().Add(-2 * time.Second)}}
			if !n.suspect(false) {
				t.Fatal("not suspected")
			}
			s.record(t.Context(), n)
			status, err := store.ReadNode(t.Context(), st, "n")
			if err != nil || status.Node.Disconnected != c.disconnected || (status.Node.SilentSince != 0) != c.silent {
				t.Errorf("%v: %+v", err, status.Node)
			}
			if n.link.recording || n.link.recorded != n.link.wanted {
				t.Errorf("%+v", n.link)
			}
		})
	}
}

// TestLostRecordOfASilenceIsRepeated: a record that the store has lost, as in a failover, is written again.
func TestLostRecordOfASilenceIsRepeated(t *testing.T) {
	t.Parallel()
	n := &conn{}
	n.watch.sent = []sentJob{{at: time.Now()}}
	if !n.suspect(false) || n.suspect(true) {
		t.Fatal("a record that is being written was not lost")
	}
	n.setRecorded(linkSilent)
	n.nextLink()
	if n.suspect(false) {
		t.Error("recorded again although the record is there")
	}
	if !n.suspect(true) {
		t.Error("not recorded again")
	}
}
