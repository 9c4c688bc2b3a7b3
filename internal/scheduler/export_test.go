package scheduler

import (
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/tenants"
)

// Keyring returns the credentials that are in force.
func (s *Scheduler) Keyring() *auth.Keyring { return s.credentials.auth.Keyring() }

// RemembersDrain reports whether this instance remembers a node as drained.
func (s *Scheduler) RemembersDrain(id core.NodeID) bool { return s.revocations.NodeDrained(id) }

// Tenants returns the weights and limits of tenants that are in force.
func (s *Scheduler) Tenants() *tenants.Table { return s.tenants.Table() }
