package fleet

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestConcurrentReadersAndWriters checks that each member which a reader gets serves the requirement at the revision that it names, and that
// the indexes match the declarations when all writers have ended.
func TestConcurrentReadersAndWriters(t *testing.T) {
	t.Parallel()
	const (
		writers = 4
		own     = 40 // nodes of each writer, enough to share shards
		rounds  = 400
	)
	f := agedFleet()
	var work, reading sync.WaitGroup
	var done atomic.Bool
	final := make([]map[core.NodeID]*core.Node, writers)
	for w := range writers {
		final[w] = make(map[core.NodeID]*core.Node)
		work.Go(func() { churn(f, w, own, rounds, final[w]) })
	}
	for r := range 4 {
		reading.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for !done.Load() {
				if err := readAll(f, rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	done.Store(true)
	reading.Wait()

	w := poolModel{fleet: f, nodes: make(map[core.NodeID]*core.Node)}
	for _, nodes := range final {
		for id, n := range nodes {
			w.nodes[id] = n
		}
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
}

// churn changes the nodes of one writer at random and stores in final what should be in view of them.
func churn(f *Fleet, writer, own, rounds int, final map[core.NodeID]*core.Node) {
	rng := rand.New(rand.NewPCG(uint64(writer), 0))
	last := make(map[core.NodeID]*core.Node)
	for range rounds {
		id := core.NodeID(fmt.Sprintf("w%d-%d", writer, rng.IntN(own)))
		langs := someLangs[rng.IntN(len(someLangs)):]
		switch rng.IntN(8) {
		case 0:
			f.Remove(id)
			delete(final, id)
		case 1:
			f.RecordHeartbeat(id, core.Load{CPU: rng.Float64()}, store.Occupancy{Max: 4, Running: rng.IntN(5)})
		case 2:
			f.Mark(store.Mark{Node: id, Service: "asr", Epoch: 1, For: time.Minute})
			if n := f.Node(id); n != nil {
				n.RecordMissedACK(f.Now())
				n.ClearMissedACKs()
			}
		case 3:
			f.ExpireSilent() // no node is silent, so none is removed
			f.EvictIdleIndexes()
			f.RecordSeen(id, time.Second)
		default:
			next := declared(id, speaks(langs...))
			if old := last[id]; old != nil {
				next = successor(old, speaks(langs...), slots(1+rng.IntN(8)))
			}
			f.Update(status(next))
			last[id], final[id] = next, next
		}
	}
}

// checkMember checks that a member serves the requirement of its index at its revision.
func checkMember(x *Index, m Member) error {
	declared := m.Declared()
	switch {
	case declared == nil || m.Revision < 1 || m.Revision > declared.Revision:
		return fmt.Errorf("%s is in the index %v as of revision %d and declares %+v", m.ID(), x.Requirement, m.Revision, declared)
	case declared.Revision == m.Revision && declared.Epoch == m.Epoch && !x.serves(declared):
		return fmt.Errorf("%s is in the index %v as of revision %d, which does not serve it", m.ID(), x.Requirement, m.Revision)
	}
	return nil
}

func readAll(f *Fleet, rng *rand.Rand) error {
	key := everyIndexKey[rng.IntN(len(everyIndexKey))]
	x := f.Index(key.Direction, key.tts)
	seen := make(map[core.NodeID]bool, x.Len())
	for m := range x.All() {
		if err := checkMember(x, m); err != nil {
			return err
		}
		seen[m.ID()] = true
		f.Utilization(m.Node, f.Now())
		m.Load()
		m.IsSetAside(f.Now())
		m.Marked(&core.Service{ID: "asr"}, f.Now())
	}
	if size := x.Len(); size > 0 {
		v := x.View()
		if m := v.At(v.SlotOf(rng.IntN(size))); m.Node != nil {
			if err := checkMember(x, m); err != nil {
				return err
			}
		}
	}
	for n := range f.All() {
		if got := f.Node(n.ID()); got != nil && got.ID() != n.ID() {
			return fmt.Errorf("asked for %s and got %s", n.ID(), got.ID())
		}
	}
	return nil
}

// TestLastSeenIsSetBeforeTheNodeIsInView checks that a new node never looks silent. Otherwise it would be rejected as
// stale, and a comparison that runs at that time would remove it.
func TestLastSeenIsSetBeforeTheNodeIsInView(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	for _, key := range everyIndexKey { // placing the node takes its time
		f.Index(key.Direction, key.tts)
	}
	now := declared("a", speaks(someLangs...))
	var done atomic.Bool
	var reading sync.WaitGroup
	var silence atomic.Int64
	reading.Go(func() {
		for !done.Load() {
			if n := f.Node("a"); n != nil {
				silence.Store(max(silence.Load(), int64(n.SinceSeen(f.Now()))))
			}
		}
	})
	for range 1000 {
		f.Update(status(now))
		f.Remove("a")
	}
	done.Store(true)
	reading.Wait()
	if got := time.Duration(silence.Load()); got >= presence {
		t.Errorf("a node that was just seen was in view as silent for %v", got.Round(time.Second))
	}
}

// TestConcurrentCallsGetTheSamePool checks that concurrent first calls for a direction return one pool.
func TestConcurrentCallsGetTheSamePool(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	for i := range 100 {
		f.Update(status(declared(core.NodeID(fmt.Sprint(i)))))
	}
	got := make([]*Index, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = f.Index(direction("en", "de"), false) })
	}
	wg.Wait()
	for _, p := range got {
		if p != got[0] {
			t.Fatal("two pools were made for one direction")
		}
	}
	if diff := cmp.Diff(100, got[0].Len()); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}
