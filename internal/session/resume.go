package session

import (
	"cmp"
	"context"
	"crypto/subtle"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// ResumeParams says which session goes on, and from where.
type ResumeParams struct {
	Session core.SessionID
	Tenant  core.TenantID
	Token   string
	Last    int64 // the last durable message that arrived

	anew bool // only a session in which nothing was said
}

// Resume goes on with a session whose link was lost. Everything after the last durable message that arrived follows, as
// far as it is still there.
func (r *Registry) Resume(ctx context.Context, p ResumeParams, link Conn) (*Connection, error) {
	if r.isLeaving() {
		return nil, leaving()
	}
	s, err := r.here(ctx, p.key())
	if err != nil {
		return nil, r.down(err)
	}
	if s == nil {
		if s, err = r.revive(ctx, &p); err != nil {
			return nil, err
		}
	}
	if !p.allowed(s.hash) {
		return nil, notItsToken()
	}
	had := s.ends()
	first, err := r.first(ctx, s.ref, p.Last)
	if err != nil {
		return nil, r.down(err)
	}
	// Somebody else may have added what was sent by whoever had the session last.
	end, err := r.last(ctx, s.ref, s.ends(), func(store.OutboxMessage) {})
	if err != nil {
		return nil, r.down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, unknown(p.Session)
	}
	s.known = max(s.known, end)
	if p.Last > s.known {
		// The store may have forgotten its last moments, and whoever comes back has not. More than that is a mistake.
		if p.Last > s.turns+mostForgotten {
			return nil, wire.Invalid("last_seq", "no message after %d was sent", s.known)
		}
		s.known, s.turns = p.Last, max(s.turns, p.Last)
		s.skip(p.Last) // the client has the terminal messages
		s.change()
	}
	r.counts.Events.WithLabelValues("resumed").Inc()
	s.pace.credit = max(s.pace.credit, time.Since(s.heard))
	s.attach(link)
	// What was sent over the link that was lost, and did not arrive, is sent again.
	s.sent = min(s.sent, p.Last)
	// What there was before it was looked for, and was not found, is gone. What has come since is found later.
	recovered := first == p.Last+1 || first == 0 && (had <= p.Last || s.fresh[p.Last+1] != nil)
	switch {
	case !recovered && first == 0:
		s.skip(had)
	case !recovered:
		s.skip(first - 1)
	}
	s.confirm(p.Last)
	s.skipEnded()
	answer := wire.SessionResumed{SessionID: string(s.ref.Name), Recovered: recovered, NextAudioSeq: s.counted + 1, LastSeq: s.known}
	if s.open != nil {
		answer.OpenUtterance = s.open.id
	}
	for _, u := range s.again {
		if u.awaitsAudio() {
			answer.AudioNeeded = append(answer.AudioNeeded, wire.AudioSpan{UtteranceIndex: u.turn - 1, FirstSeq: u.first, LastSeq: u.last})
		}
	}
	link.Send(answer)
	s.acked = s.counted
	for _, u := range s.waiting() {
		if u.version <= s.stored {
			s.tell(u)
		}
	}
	s.catchUp()
	return &Connection{s, link, s.set.Numbered}, nil
}

// mostForgotten is how many utterances a store may have forgotten that its client knows of.
const mostForgotten = 64

// here is a session that is this instance's, nil when it is not, or not any more.
func (r *Registry) here(ctx context.Context, key core.SessionKey) (*Session, error) {
	s := r.named(key)
	if s == nil {
		return nil, nil
	}
	st, err := r.store.LoadSession(ctx, key)
	if err != nil {
		return nil, err
	}
	if st.Epoch > s.claim.Epoch || st.Epoch > 0 && st.Incarnation != s.ref.Incarnation {
		s.superseded()
		return nil, nil
	}
	return s, nil
}

// ends is the last durable message there is, as far as it is known.
func (s *Session) ends() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

func (p *ResumeParams) key() core.SessionKey {
	return core.SessionKey{Tenant: p.Tenant, Name: p.Session}
}

// allowed reports whether the client has the session's token.
func (p *ResumeParams) allowed(hash string) bool {
	return subtle.ConstantTimeCompare([]byte(hash), []byte(hashOf(p.Token))) == 1
}

func notItsToken() *wire.Error {
	return wire.FieldErrorf(wire.Forbidden, "resume_token", "it is not the token of this session")
}

// first is the first durable message after one that arrived; 0 when there is none.
func (r *Registry) first(ctx context.Context, ref core.SessionRef, after int64) (int64, error) {
	some, err := r.store.Read(ctx, store.ReadParams{Session: ref, After: after, Limit: 1})
	if err != nil || len(some) == 0 {
		return 0, err
	}
	return some[0].Seq, nil
}

func sortTurns(list []*utterance) {
	slices.SortFunc(list, func(a, b *utterance) int { return cmp.Compare(a.turn, b.turn) })
}

func unknown(id core.SessionID) *wire.Error {
	return wire.FieldErrorf(wire.NotFound, "session_id", "no session %s is known, or not any more: start a new one", id)
}
