package bus_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFenceEndsBeforePresence: an instance that cannot renew its presence stops granting well before the others can declare it dead. It grants again
// soon after the store answers.
func TestFenceEndsBeforePresence(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		h.startInstance("b")
		if fence := bus.New(bus.Config{TTL: ttl}, h, telemetry.New(), nil).Fence(); !fence.IsZero() {
			t.Errorf("the fence of an instance without a presence is %v", fence)
		}
		for range 20 {
			time.Sleep(ttl / 4)
			if left := time.Until(a.Fence()); left <= 0 || left > ttl*2/3 {
				t.Fatalf("the fence of a present instance is in %s", left)
			}
		}
		h.mu.Lock()
		h.unreachable["a"] = true
		h.mu.Unlock()
		fenced, absent := time.Duration(0), time.Duration(0)
		for began := time.Now(); absent == 0 || fenced == 0; time.Sleep(10 * time.Millisecond) {
			if fenced == 0 && !time.Now().Before(a.Fence()) {
				fenced = time.Since(began)
			}
			if absent == 0 && !h.instanceState("a").Present {
				absent = time.Since(began)
			}
			if time.Since(began) > time.Minute {
				t.Fatal("it is neither fenced nor absent")
			}
		}
		if absent-fenced < ttl/4 {
			t.Errorf("fenced after %s, absent after %s", fenced, absent)
		}
		h.mu.Lock()
		h.unreachable["a"] = false
		h.mu.Unlock()
		time.Sleep(120 * time.Millisecond)
		if !time.Now().Before(a.Fence()) || !h.instanceState("a").Present {
			t.Error("the instance is not present again")
		}
	})
}

// TestPeersAreSortedByName: peers are sorted by name, and absent ones keep their names.
func TestPeersAreSortedByName(t *testing.T) {
	onBothStores(t, func(t *testing.T, st store.Store) {
		for _, id := range []core.InstanceID{"west-zzzzzzzz", "i-abcdefgh", "north-east-aaaaaaaa", "east-bbbbbbbb", "east-aaaaaaaa"} {
			if err := st.Announce(t.Context(), store.AnnounceParams{ID: id, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			if err := st.Announce(t.Context(), store.AnnounceParams{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
		peers, err := newBus(t, st, "m-mmmmmmmm", time.Minute, make(logLines, 64)).Peers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range peers {
			got = append(got, p.Name+" "+string(p.ID))
		}
		want := []string{
			"east east-aaaaaaaa", "east east-bbbbbbbb", "i-abcdefgh i-abcdefgh", "m m-mmmmmmmm", "north-east north-east-aaaaaaaa", "west west-zzzzzzzz",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestConfiguredNameOfIncarnation(t *testing.T) {
	t.Parallel()
	if id := bus.NewIncarnation("north-east"); bus.ConfiguredName(id) != "north-east" || id == bus.NewIncarnation("north-east") {
		t.Errorf("%s is an incarnation of %q", id, bus.ConfiguredName(id))
	}
	if id := bus.NewIncarnation(""); bus.ConfiguredName(id) != string(id) {
		t.Errorf("the name of %s, which has no configured one, is %q", id, bus.ConfiguredName(id))
	}
}
