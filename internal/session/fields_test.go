package session

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/test/storetest"
)

// TestStoredTypesKeepEveryField: what a session stores, and what instances send each other about one, is read as it was written.
func TestStoredTypesKeepEveryField(t *testing.T) {
	t.Parallel()
	storetest.Fields[savedSession]{Keep: storetest.ThroughJSON[savedSession]}.Check(t)
	storetest.Fields[endedMessage]{Keep: storetest.ThroughJSON[endedMessage]}.Check(t)
	storetest.Fields[audioWantedMessage]{Keep: storetest.ThroughJSON[audioWantedMessage]}.Check(t)
	storetest.Fields[movedMessage]{Keep: storetest.ThroughJSON[movedMessage]}.Check(t)
}

// TestRestoredSessionKeepsEveryField: a session that was taken over saves the state that it was restored from.
func TestRestoredSessionKeepsEveryField(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{})
	defer st.Close()
	d := NewDirectory(Config{Instance: "i-1"}, st, nil, audio.NewBuffer(0), &telemetry.New().Sessions, slog.New(slog.DiscardHandler))
	r := NewRegistry(d, nil)
	ref := core.SessionRef{SessionKey: core.SessionKey{Tenant: "acme", Name: "room-1"}, Incarnation: "a"}
	storetest.Fields[savedSession]{
		Base: savedSession{Turns: 2, Options: []core.Options{{}}, Closed: closedUtterances{}, Pending: []savedUtterance{{Turn: 1, Request: "r"}}},
		// Counted follows from the outbox, and an utterance says itself whether it wants speech.
		Except: []string{"Counted", "Pending.Options", "Pending.Turn", "Turns"},
		Keep: func(t *testing.T, state savedSession) (got savedSession) {
			for i := range state.Pending {
				state.Pending[i].Turn = int64(i + 1) // after the last message of the outbox
			}
			s, err := restoreSession(t.Context(), r, ref, &state)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range s.intake.replays {
				s.outbox.pending[u.turn] = u
			}
			body, err := s.encodeState()
			if err == nil {
				err = json.Unmarshal(body, &got)
			}
			if err != nil {
				t.Fatal(err)
			}
			return got
		},
	}.Check(t)
}
