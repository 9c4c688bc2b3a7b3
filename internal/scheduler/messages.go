package scheduler

import (
	"maps"

	"github.com/lingua-scheduler/lingua/internal/bus"
)

// messageHandlers returns the handlers of the messages of other instances.
func messageHandlers(s *Scheduler) map[bus.Kind]bus.Handler {
	handlers := s.nodeConns.Handlers(s.Jobs.Reports)
	maps.Copy(handlers, s.Sessions.Handlers())
	maps.Copy(handlers, s.Jobs.Handlers())
	return handlers
}
