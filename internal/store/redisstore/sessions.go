package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// SaveSession implements store.Sessions.
func (s *Store) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	out, waiting := s.keys.outbox(p.Session)
	take := "0"
	if p.TakeOver {
		take = "1"
	}
	_, r, err := s.line.run(ctx, &scriptSave, []string{s.keys.session(p.Session.SessionKey), out, waiting},
		strconv.FormatInt(p.Epoch, 10), string(p.Session.Incarnation), string(p.Owner), take, string(p.Body), millis(p.Keep),
		strconv.FormatInt(p.Known, 10), strconv.FormatInt(p.Acked, 10), string(p.Expected))
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}

// LoadSession implements store.Sessions. The first line of a state says who has the session.
func (s *Store) LoadSession(ctx context.Context, key core.SessionKey) (store.SessionState, error) {
	text, err := s.value(ctx, s.keys.session(key))
	if err != nil || text == nil {
		return store.SessionState{}, err
	}
	head, body, _ := bytes.Cut(text, []byte("\n"))
	epoch, rest, _ := strings.Cut(string(head), " ")
	incarnation, owner, _ := strings.Cut(rest, " ")
	st := store.SessionState{Incarnation: core.SessionIncarnation(incarnation), Body: body}
	st.Owner = core.InstanceID(owner)
	if st.Epoch, err = strconv.ParseInt(epoch, 10, 64); err != nil {
		return store.SessionState{}, fmt.Errorf("the state of session %s cannot be read: %w", key, err)
	}
	return st, nil
}

// put writes a value for a while.
func (s *Store) put(ctx context.Context, key string, body []byte, keep time.Duration) error {
	_, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Set().Key(key).Value(string(body)).Px(keep).Build())
	return err
}

// value reads one; nil when there is none.
func (s *Store) value(ctx context.Context, key string) ([]byte, error) {
	m, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Get().Key(key).Build())
	if err != nil || m.IsNil() {
		return nil, err
	}
	text, err := m.ToString()
	return []byte(text), err
}
