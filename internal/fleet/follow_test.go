package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

func TestFollowerFindsWhoIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t)
		f.register("a")
		f.register("gone")
		f.mark("a", "asr", time.Minute)
		time.Sleep(presence)
		f.beat("a")
		f.run()
		synctest.Wait()
		if diff := cmp.Diff([]core.NodeID{"a"}, inView(f.fleet)); diff != "" {
			t.Fatalf("in view (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f.fleet, "a", "asr", "nmt")); diff != "" {
			t.Errorf("marks set before it began (-want +got):\n%s", diff)
		}
		f.pass(time.Minute-presence, "a")
		if diff := cmp.Diff(map[string]bool{}, marked(f.fleet, "a", "asr")); diff != "" {
			t.Errorf("marks after their time (-want +got):\n%s", diff)
		}
	})
}

// Changes are pushed: the view has them before any time has passed.
func TestFollowerTakesChangesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t)
		f.run()
		synctest.Wait()
		pool := f.fleet.Pool(way("en", "de"), false)
		began := time.Now()
		settle := func() *Node {
			synctest.Wait()
			if waited := time.Since(began); waited != 0 {
				t.Fatalf("took %v", waited)
			}
			return f.fleet.Node("a")
		}

		r := f.register("a")
		n := settle()
		if n == nil || n.Now() != r.Node || n.Handle() != r.Handle || pool.Members().Len() != 1 {
			t.Fatal("a registration was not taken over")
		}
		f.drain("a", true)
		if settle(); n.Now().EffectiveHealth() != core.HealthDraining || n.Summary().Ready() {
			t.Error("a drain was not taken over")
		}
		f.drain("a", false)
		if settle(); !n.Summary().Ready() {
			t.Error("the end of a drain was not taken over")
		}
		f.mark("a", "asr", time.Minute)
		if settle(); len(marked(f.fleet, "a", "asr")) != 1 {
			t.Error("a mark was not taken over")
		}
		f.register("a", speaks("en", "zh"))
		if settle() != n || pool.Members().Len() != 0 || f.fleet.Pool(way("en", "zh"), false).Members().Len() != 1 {
			t.Error("a registration anew was not taken over")
		}
		f.remove("a")
		if settle() != nil || f.fleet.Len() != 0 {
			t.Error("a removal was not taken over")
		}
	})
}

// A heartbeat that changes nothing is not pushed. The poll notices it, so the node stays.
func TestFollowerKeepsWhoIsHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t)
		f.register("a")
		f.run()
		for range 60 {
			f.pass(time.Second, "a")
			synctest.Wait()
			n := f.fleet.Node("a")
			if n == nil {
				t.Fatalf("the node left after %v although it is heard each second", time.Since(f.start))
			}
			if got := n.Silence(f.fleet.Now()); got > time.Second+pollMost {
				t.Fatalf("thought silent for %v", got)
			}
		}
		if got := f.reported(); len(got) > 0 {
			t.Errorf("reported %v", got)
		}
	})
}

// deafen makes the store lose every change from now on without a word.
func (f *following) deafen() {
	synctest.Wait()
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.store.deaf = true
}

// A change may be lost without anybody noticing; the regular comparison makes up for it.
func TestFollowerComparesRegularly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t)
		f.register("a")
		f.run()
		f.deafen()
		f.drain("a", true)
		f.pass(compareEvery+2*pollMost, "a")
		synctest.Wait()
		if n := f.fleet.Node("a"); n == nil || n.Summary().Ready() {
			t.Error("a drain was not noticed")
		}
	})
}

func TestFollowerFindsWhoseComingAndGoingWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t)
		f.register("kept")
		f.register("removed")
		f.run()
		f.deafen()
		f.remove("removed")
		f.register("new")
		f.mark("new", "asr", 10*time.Minute)
		f.pass(compareEvery+2*pollMost, "kept", "new")
		synctest.Wait()
		if diff := cmp.Diff([]core.NodeID{"kept", "new"}, inView(f.fleet)); diff != "" {
			t.Errorf("in view (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f.fleet, "new", "asr")); diff != "" {
			t.Errorf("marks of the new one (-want +got):\n%s", diff)
		}
	})
}

func TestFollowerForgetsIdlePools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t)
		f.run()
		f.fleet.Pool(way("en", "de"), false)
		time.Sleep(idlePool)
		synctest.Wait()
		if diff := cmp.Diff([]string{"en→de"}, asked(f.fleet)); diff != "" {
			t.Errorf("before its time (-want +got):\n%s", diff)
		}
		time.Sleep(compareEvery + 2*pollMost)
		synctest.Wait()
		if got := asked(f.fleet); len(got) > 0 {
			t.Errorf("still there: %v", got)
		}
	})
}

// Marks live in the store for as long as they were set. A node that leaves the view and registers again has
// them still, as it would had it stayed in view or been found by a comparison.
func TestFollowerTakesTheMarksOfANodeThatComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t)
		f.register("a")
		f.run()
		synctest.Wait()
		f.mark("a", "asr", time.Minute)
		time.Sleep(presence + pollMost)
		synctest.Wait()
		if f.fleet.Node("a") != nil {
			t.Fatal("the silent node is still in view")
		}
		f.register("a")
		synctest.Wait()
		if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f.fleet, "a", "asr")); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
	})
}

// A node that was out of reach for a while and goes on with its heartbeats where it left off, at another
// instance, makes no change to push. The poll sees that it is alive; until it is in view its slots are free
// and nobody here gets them.
func TestFollowerSeesANodeThatIsHeardAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t)
		f.register("a")
		f.run()
		time.Sleep(presence + pollMost)
		synctest.Wait()
		if f.fleet.Node("a") != nil {
			t.Fatal("the silent node is still in view")
		}
		f.pass(2*pollMost, "a")
		synctest.Wait()
		if f.fleet.Node("a") == nil {
			t.Errorf("two polls after it was heard again the node is not in view")
		}
	})
}
