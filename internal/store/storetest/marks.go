package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// markBehaviours is the specification of Marks.
var markBehaviours = []behaviour{
	{"a mark is listed until it expires", testMarkExpires},
	{"the marks of any number of nodes are listed in the order of the nodes", testMarksOfManyNodes},
}

func testMarkExpires(t *testing.T, h *Harness) {
	h.register(t, "node-a", 1)
	if err := h.Store.Mark(t.Context(), store.Mark{Node: "node-a", Service: "asr-x", For: h.Timing.Presence}); err != nil {
		t.Fatal(err)
	}
	marks, err := h.Store.Marked(t.Context(), "node-a")
	if err != nil || len(marks) != 1 || marks[0].Service != "asr-x" || marks[0].For <= 0 || marks[0].For > h.Timing.Presence {
		t.Errorf("marked: %v, %v", marks, err)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if marks, err = h.Store.Marked(t.Context(), "node-a"); err != nil || len(marks) != 0 {
		t.Errorf("marked after expiry: %v, %v", marks, err)
	}
}

func testMarksOfManyNodes(t *testing.T, h *Harness) {
	const many = 150 // more than one batch
	var ids []core.NodeID
	for i := range many {
		id := core.NodeID(fmt.Sprintf("node-%d", i))
		ids = append(ids, id)
		h.register(t, id, 1)
		if i%50 == 7 {
			if err := h.Store.Mark(t.Context(), store.Mark{Node: id, Service: "asr-x", For: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
	}
	marks, err := h.Store.Marked(t.Context(), append(ids, "node-unknown")...)
	if err != nil {
		t.Fatal(err)
	}
	var found []core.NodeID
	for _, m := range marks {
		found = append(found, m.Node)
	}
	if diff := cmp.Diff([]core.NodeID{"node-7", "node-57", "node-107"}, found); diff != "" {
		t.Errorf("nodes with marks (-want +got):\n%s", diff)
	}
}
