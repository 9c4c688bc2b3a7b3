package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestPartialUntilRead: the view is complete when every node of the store and their marks were read, and not before.
func TestPartialUntilRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		for i := range 1200 {
			f.register(core.NodeID(fmt.Sprintf("node-%d", i)))
		}
		f.mark("node-1100", "asr", time.Minute)
		f.store.failing["Nodes"], f.store.failing["Marked"] = 1, 1
		f.fleet.SetPartial(true)
		f.run()
		synctest.Wait()
		if f.fleet.Len() != 0 || !f.fleet.Partial() {
			t.Fatalf("the store did not answer: %d nodes, partial %v", f.fleet.Len(), f.fleet.Partial())
		}
		time.Sleep(pollMost)
		synctest.Wait()
		if f.fleet.Len() != 1200 || !f.fleet.Partial() {
			t.Fatalf("the marks could not be read: %d nodes, partial %v", f.fleet.Len(), f.fleet.Partial())
		}
		time.Sleep(pollMost)
		synctest.Wait()
		if f.fleet.Partial() {
			t.Error("everything was read, and the view is still partial")
		}
		if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f.fleet, "node-1100", "asr")); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
		if n := f.store.called("Marked"); n > 5 { // three batches, of which the first was asked twice
			t.Errorf("the marks of 1200 nodes took %d calls", n)
		}
	})
}
