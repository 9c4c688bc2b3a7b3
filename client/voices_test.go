package client

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestVoicesAreForgotten: speech that never ends is not remembered without end.
func TestVoicesAreForgotten(t *testing.T) {
	t.Parallel()
	var v voices
	for i := range 10 * mostVoices {
		h := wire.BinaryHeader{ActiveJob: wire.ActiveJob{JobID: fmt.Sprint(i), AttemptID: 1}}
		if !v.first(&h) || v.first(&h) {
			t.Fatalf("the first piece of %d was not taken once", i)
		}
	}
	if len(v) != mostVoices {
		t.Errorf("%d are remembered, want %d", len(v), mostVoices)
	}
}
