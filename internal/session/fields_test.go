package session

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/store/storetest"
)

// TestStoredTypesKeepEveryField: what a session stores, and what instances send each other about one, is read as it was written.
func TestStoredTypesKeepEveryField(t *testing.T) {
	t.Parallel()
	storetest.Fields[savedSession]{Keep: storetest.ThroughJSON[savedSession]}.Check(t)
	storetest.Fields[endedMessage]{Keep: storetest.ThroughJSON[endedMessage]}.Check(t)
	storetest.Fields[audioWantedMessage]{Keep: storetest.ThroughJSON[audioWantedMessage]}.Check(t)
	storetest.Fields[movedMessage]{Keep: storetest.ThroughJSON[movedMessage]}.Check(t)
}
