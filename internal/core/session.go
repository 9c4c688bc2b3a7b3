package core

import (
	"crypto/rand"
	"errors"
	"strings"
)

// SessionKey is the name of a session within its tenant. Two tenants may use the same name.
type SessionKey struct {
	Tenant TenantID
	Name   SessionID
}

// String joins the parts with a slash, which no identifier contains.
func (k SessionKey) String() string { return string(k.Tenant) + "/" + string(k.Name) }

// SessionIncarnation distinguishes the starts of one session name. It cannot be guessed.
type SessionIncarnation string

// NewSessionIncarnation makes the incarnation of a new session.
func NewSessionIncarnation() SessionIncarnation { return SessionIncarnation(rand.Text()) }

// SessionRef identifies one session: its name and the incarnation of its start. A session that reuses a name is another
// one, and shares no state with the earlier.
type SessionRef struct {
	SessionKey
	Incarnation SessionIncarnation
}

// String joins tenant, name and incarnation with slashes.
func (r SessionRef) String() string { return r.SessionKey.String() + "/" + string(r.Incarnation) }

// MarshalText implements encoding.TextMarshaler.
func (r SessionRef) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

var errSessionRef = errors.New("a session reference is tenant/name/incarnation")

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *SessionRef) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), "/")
	if len(parts) != 3 {
		return errSessionRef
	}
	*r = SessionRef{SessionKey{TenantID(parts[0]), SessionID(parts[1])}, SessionIncarnation(parts[2])}
	return nil
}
