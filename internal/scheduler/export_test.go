package scheduler

import (
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/tenants"
)

// Keyring returns the credentials that are in force.
func (s *Scheduler) Keyring() *auth.Keyring { return s.credentials.auth.Keyring() }

// Tenants returns the weights and limits of tenants that are in force.
func (s *Scheduler) Tenants() *tenants.Table { return s.tenants.Table() }
