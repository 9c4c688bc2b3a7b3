package stats

import (
	"testing"

	"github.com/lingua-scheduler/lingua/test/storetest"
)

// TestStoredTypesKeepEveryField: what an instance publishes, the snapshot and the history are read as they were written.
func TestStoredTypesKeepEveryField(t *testing.T) {
	t.Parallel()
	byDirection := []string{"Load.WaitingBy"} // it is published under the names of the directions
	storetest.Fields[published]{Except: byDirection, Keep: storetest.ThroughJSON[published]}.Check(t)
	storetest.Fields[publishedStats]{Keep: storetest.ThroughJSON[publishedStats]}.Check(t)
	storetest.Fields[bucket]{Keep: storetest.ThroughJSON[bucket]}.Check(t)
	storetest.Fields[counted]{Except: byDirection, Keep: storetest.ThroughJSON[counted]}.Check(t)
	storetest.Fields[minutePoints]{Keep: storetest.ThroughJSON[minutePoints]}.Check(t)
}
