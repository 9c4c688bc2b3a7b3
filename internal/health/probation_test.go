package health

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// TestTimesAreThoseOfTheStore: how long an ejection has lasted is judged by the clock of the store, however wrong that of this machine is.
func TestTimesAreThoseOfTheStore(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudged(t, 8, fiveNodes(), enZH)
			j.judge(seenOf("a", 20, 20))
			n := *j.Fleet.Node("a").Declared()
			n.Version++
			n.Admission.Since, n.Admission.Until = n.Admission.Since.Add(ahead), n.Admission.Until.Add(ahead)
			j.Fleet.Update(store.NodeStatus{Node: &n, At: n.Admission.Since})
			j.Store = notedAdmissions{j.store, &n}
			for range 5 {
				j.judge(Report{})
			}
			if j.slots("a") != 0 {
				t.Errorf("the store is %v ahead: the ejection ended early", ahead)
			}
			for range 4 {
				j.judge(Report{})
			}
			if j.slots("a") != 1 {
				t.Errorf("the store is %v ahead: after 45 s the node has %d slots", ahead, j.slots("a"))
			}
		})
	}
}

// notedAdmissions is a store whose clock is another one: it admits what is decided about one node.
type notedAdmissions struct {
	*memstore.Store
	node *core.Node
}

func (s notedAdmissions) Admit(_ context.Context, p store.AdmitParams) (*core.Node, bool, error) {
	next := *s.node
	next.Version++
	next.Admission = p.Admission
	return &next, true, nil
}
