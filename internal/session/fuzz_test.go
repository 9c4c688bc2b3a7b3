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
)

// FuzzStoredSession: nothing that is stored as the state of a session, or as a message of its outbox, makes an instance panic that takes it
// over.
func FuzzStoredSession(f *testing.F) {
	for _, seed := range []string{
		`{"TokenHash":"x","Turns":3,"Options":[{"Strict":true}],"Closed":[{"Name":"a","Turn":-7}],"Pending":[{"Turn":2,"Options":0,"Continues":1}]}`,
		`{"Pending":[{"Turn":-7,"Options":-1}]}`, `{"Pending":[{"Turn":1},null],"Options":[null]}`, `{"Settings":{"MaxUtterance":-7,"Langs":["x"]},"Acked":-7}`,
		`null`, `{}`, `[]`, "", "{}\n{}", "{\"speech\":\"follows\"}\n{\"type\":\"result\"}",
	} {
		f.Add([]byte(seed))
	}
	st := memstore.New(store.Timing{})
	f.Cleanup(func() { _ = st.Close() })
	d := NewDirectory(Config{Instance: "i-1"}, st, nil, audio.NewBuffer(0), &telemetry.New().Sessions, slog.New(slog.DiscardHandler))
	r := NewRegistry(d, nil)
	ref := core.SessionRef{SessionKey: core.SessionKey{Tenant: "acme", Name: "room-1"}, Incarnation: "a"}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = decodeTerminalMessage(body)
		var state savedSession
		if json.Unmarshal(body, &state) != nil {
			return
		}
		s, err := restoreSession(t.Context(), r, ref, &state)
		if err != nil {
			return
		}
		for _, u := range s.intake.replays {
			s.outbox.pending[u.turn] = u
		}
		_, _ = s.encodeState()
	})
}
