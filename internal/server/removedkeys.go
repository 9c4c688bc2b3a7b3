package server

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/wire"
)

// CloseRemovedKeys closes the connections whose key has expired, or is no longer in force, or the signer of whose token is not. It is to
// be called after the keys were replaced, and from time to time.
func (s *Server) CloseRemovedKeys() {
	keyring, now := s.access.auth.Keyring(), time.Now()
	s.hub.CloseIf(func(owner any) bool {
		caller, ok := owner.(*auth.Principal)
		return ok && !keyring.Knows(caller, now)
	}, wire.CloseUnauthorized, errKeyRemoved())
}

func errKeyRemoved() *wire.Error {
	return wire.Errorf(wire.Unauthorized, "the key of this connection was removed or has expired: use another, or mint a new session token")
}
