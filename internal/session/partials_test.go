package session_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestLargePartialsAreNotSentToOtherInstances: inboxes are bounded in messages, so the partial results of one node must not fill
// them with bytes.
func TestLargePartialsAreNotSentToOtherInstances(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second})
	if err := st.Announce(t.Context(), store.AnnounceParams{ID: "i-b", Body: []byte("{}"), TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	b := bus.New(bus.Config{Instance: "i-a", TTL: 3 * time.Second, About: func() bus.About { return bus.About{} }}, st, telemetry.New(), slog.New(slog.DiscardHandler))
	d := session.NewDirectory(session.Config{Instance: "i-a"}, st, b, audio.NewBuffer(0), &telemetry.New().Sessions, slog.New(slog.DiscardHandler))
	text := strings.Repeat("x", 250_000)
	const sent = 200 // what one node sends while i-b does nothing for a moment
	for rev := range sent {
		d.SendPartial(t.Context(), "i-b", &wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: "j", AttemptID: 1}, Rev: int64(rev), TextTgt: text})
	}
	messages, err := st.Fetch(t.Context(), store.FetchParams{Inbox: "i-b", Wait: time.Millisecond, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, m := range messages {
		size += len(m.Body)
	}
	if size > 1<<20 {
		t.Errorf("%d partial results of one job are %d messages of %d MB", sent, len(messages), size>>20)
	}
}
