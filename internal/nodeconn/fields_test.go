package nodeconn

import (
	"testing"

	"github.com/lingua-scheduler/lingua/test/storetest"
)

// TestMessagesKeepEveryField: what instances send each other about nodes is read as it was written.
func TestMessagesKeepEveryField(t *testing.T) {
	t.Parallel()
	storetest.Fields[assignMessage]{Keep: storetest.ThroughJSON[assignMessage]}.Check(t)
	storetest.Fields[undeliveredMessage]{Keep: storetest.ThroughJSON[undeliveredMessage]}.Check(t)
	storetest.Fields[cancelMessage]{Keep: storetest.ThroughJSON[cancelMessage]}.Check(t)
}
