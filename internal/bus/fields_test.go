package bus

import (
	"encoding/json"
	"testing"

	"github.com/lingua-scheduler/lingua/test/storetest"
)

// TestMessageKeepsEveryField: a message, and what an instance publishes about itself, is read as it was written.
func TestMessageKeepsEveryField(t *testing.T) {
	t.Parallel()
	body := json.RawMessage(`{"a":1}`)
	storetest.Fields[Message]{Base: Message{Body: body}, Values: map[string]any{"Body": body}, Keep: storetest.ThroughJSON[Message]}.Check(t)
	storetest.Fields[About]{Keep: storetest.ThroughJSON[About]}.Check(t)
}
