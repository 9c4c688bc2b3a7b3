package scheduler

import "github.com/lingua-scheduler/lingua/internal/auth"

// Keyring returns the credentials that are in force.
func (s *Scheduler) Keyring() *auth.Keyring { return s.credentials.auth.Keyring() }
