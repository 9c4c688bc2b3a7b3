package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestAHalfOpenLinkShadowsTheOwner: a node's connection to this instance is half open; the node has long connected with i-b. Until the pings notice,
// nothing can be delivered to it from here, although everybody knows where it is.
func TestAHalfOpenLinkShadowsTheOwner(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second})
	if err := st.Announce(t.Context(), store.AnnounceParams{ID: "i-b", Body: []byte("{}"), TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	b := bus.New(bus.Config{Instance: "i-a", TTL: 3 * time.Second, About: func() bus.About { return bus.About{} }}, st, telemetry.New(), slog.New(slog.DiscardHandler))
	l := NewNodeConns(nil, []byte("secret"))
	l.Join(b, func(core.NodeID) core.InstanceID { return "i-b" }, nil, 2*time.Second)
	l.enter(&nodeLink{id: "n", epoch: 1}) // the connection of its last life
	node := &core.Node{ID: "n", Epoch: 2, Owner: "i-b"}
	if err := l.Deliver(t.Context(), node, &wire.Assignment{JobID: "j", AttemptID: 1, NodeID: "n", Epoch: 2}); err != nil {
		t.Errorf("the node is connected with i-b, and the store says so: %v", err)
	}
}

// TestPartialsFillAnInbox: partials of a node go into another instance's inbox as they are: of any size a frame may have, as often as the
// node likes, whether or not the session wants any. Letters are counted, not bytes.
func TestPartialsFillAnInbox(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second})
	if err := st.Announce(t.Context(), store.AnnounceParams{ID: "i-b", Body: []byte("{}"), TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	b := bus.New(bus.Config{Instance: "i-a", TTL: 3 * time.Second, About: func() bus.About { return bus.About{} }}, st, telemetry.New(), slog.New(slog.DiscardHandler))
	rooms := session.New(session.Config{Instance: "i-a"}, st, nil, &telemetry.New().Sessions, slog.New(slog.DiscardHandler))
	defer rooms.Close()
	rooms.Join(b)
	text := strings.Repeat("x", 250_000)
	const sent = 200 // what one node sends while i-b does nothing for a moment
	for rev := range sent {
		rooms.PartialTo(t.Context(), "i-b", &wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: "j", AttemptID: 1}, Rev: int64(rev), TextTgt: text})
	}
	letters, err := st.Fetch(t.Context(), store.FetchParams{Inbox: "i-b", Wait: time.Millisecond, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, letter := range letters {
		size += len(letter.Body)
	}
	if size > 1<<20 {
		t.Errorf("%d partials of one job are %d letters of %d MB; an inbox takes 8192 of them, %d MB", sent, len(letters), size>>20, 8192*(size/len(letters))>>20)
	}
}
