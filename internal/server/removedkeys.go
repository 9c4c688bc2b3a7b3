package server

import (
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/wire"
)

// CloseRemovedKeys closes the connections whose key, or the signer of whose token, is no longer in force. It is to be called after the
// keys were replaced.
func (s *Server) CloseRemovedKeys() {
	keyring := s.access.auth.Keyring()
	s.hub.CloseIf(func(owner any) bool {
		caller, ok := owner.(*auth.Principal)
		return ok && !keyring.Knows(caller)
	}, wire.CloseUnauthorized, errKeyRemoved())
}

func errKeyRemoved() *wire.Error {
	return wire.Errorf(wire.Unauthorized, "the key of this connection was removed: use another, or mint a new session token")
}
