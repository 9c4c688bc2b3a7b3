package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// tenantBehaviours is the specification of Tenants.
var tenantBehaviours = []behaviour{
	{"a tenant has as many jobs as its limit, and one that ends makes room", testTenantInFlight},
	{"tenants, jobs and sessions are counted on their own", testTenantsApart},
	{"concurrent callers together never exceed a limit", testTenantConcurrent},
	{"a member expires unless it is renewed, and a renewal adds none", testTenantExpiry},
	{"a member that is admitted again has the new time to live, and one that is restored the longer one", testTenantReadmitted},
	{"jobs begin at the rate of dispatches, and those of one second at once", testDispatchRate},
	{"an utterance may exceed the rate of audio, and the next one waits for it", testAudioRate},
	{"a job that is refused takes no tokens, and one that is undone gives them back", testTenantUndo},
	{"a member that was lost is restored whatever the limits are", testTenantRestore},
}

// repeatingTenants is the part of RepeatingStore that is about tenants.
type repeatingTenants struct{ store.Store }

// AdmitMember implements store.Tenants.
func (r repeatingTenants) AdmitMember(ctx context.Context, p store.MemberParams) (store.TenantVerdict, error) {
	if first, err := r.Store.AdmitMember(ctx, p); err != nil || first.Refused != store.NoLimit {
		return first, err
	}
	return r.Store.AdmitMember(ctx, p)
}

// RemoveMember implements store.Tenants.
func (r repeatingTenants) RemoveMember(ctx context.Context, p store.MemberParams) error {
	if err := r.Store.RemoveMember(ctx, p); err != nil {
		return err
	}
	return r.Store.RemoveMember(ctx, p)
}

// jobOf returns a job of a tenant that is kept for longer than a test.
func jobOf(tenant core.TenantID, member string, limits core.TenantLimits) store.MemberParams {
	return store.MemberParams{Tenant: tenant, Kind: store.TenantJob, Member: member, Keep: time.Minute, Limits: limits}
}

// admitMember admits a member and compares the limit that forbids it.
func admitMember(t *testing.T, h *Harness, p store.MemberParams, want store.TenantLimit) store.TenantVerdict {
	t.Helper()
	v, err := h.Store.AdmitMember(t.Context(), p)
	if err != nil {
		t.Fatalf("admit %s: %v", p.Member, err)
	}
	if v.Refused != want {
		t.Fatalf("admit %s: refused by %q, want %q", p.Member, v.Refused, want)
	}
	return v
}

// removeMember removes a member.
func removeMember(t *testing.T, h *Harness, p store.MemberParams) {
	t.Helper()
	if err := h.Store.RemoveMember(t.Context(), p); err != nil {
		t.Fatalf("remove %s: %v", p.Member, err)
	}
}

// wantUse compares how many members tenants have.
func wantUse(t *testing.T, h *Harness, want map[core.TenantID]store.TenantUse) {
	t.Helper()
	var ids []core.TenantID
	for id := range want {
		ids = append(ids, id)
	}
	use, err := h.Store.ReadTenants(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[core.TenantID]store.TenantUse)
	for i, id := range ids {
		got[id] = store.TenantUse{InFlight: use[i].InFlight, Sessions: use[i].Sessions}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("use of the tenants (-want +got):\n%s", diff)
	}
}

func testTenantInFlight(t *testing.T, h *Harness) {
	limits := core.TenantLimits{InFlight: 2}
	a, b, c := jobOf("acme", "a", limits), jobOf("acme", "b", limits), jobOf("acme", "c", limits)
	if v := admitMember(t, h, a, store.NoLimit); v.Used != 1 {
		t.Errorf("%d are used after the first, want 1", v.Used)
	}
	admitMember(t, h, b, store.NoLimit)
	if v := admitMember(t, h, c, store.LimitInFlight); v.Used != 2 || v.RetryIn != 0 {
		t.Errorf("the third: %+v", v)
	}
	admitMember(t, h, a, store.NoLimit) // it is repeated
	wantUse(t, h, map[core.TenantID]store.TenantUse{"acme": {InFlight: 2}})
	removeMember(t, h, a)
	removeMember(t, h, jobOf("acme", "unknown", limits))
	admitMember(t, h, c, store.NoLimit)
	wantUse(t, h, map[core.TenantID]store.TenantUse{"acme": {InFlight: 2}})
	lower := c
	lower.Limits.InFlight, lower.Member = 1, "d" // by a reload: those that run may end
	admitMember(t, h, lower, store.LimitInFlight)
}

func testTenantsApart(t *testing.T, h *Harness) {
	limits := core.TenantLimits{InFlight: 1, Sessions: 1}
	session := jobOf("acme", "a", limits)
	session.Kind = store.TenantSession
	admitMember(t, h, jobOf("acme", "a", limits), store.NoLimit)
	admitMember(t, h, session, store.NoLimit)
	admitMember(t, h, jobOf("", "a", limits), store.NoLimit)
	wantUse(t, h, map[core.TenantID]store.TenantUse{"acme": {InFlight: 1, Sessions: 1}, "": {InFlight: 1}, "other": {}})
	session.Member = "b"
	admitMember(t, h, session, store.LimitSessions)
	removeMember(t, h, jobOf("acme", "a", limits))
	admitMember(t, h, session, store.LimitSessions)
	session.Member = "a"
	removeMember(t, h, session)
	wantUse(t, h, map[core.TenantID]store.TenantUse{"acme": {}, "": {InFlight: 1}})
}

// testTenantConcurrent: many callers admit and remove jobs, some of them twice.
func testTenantConcurrent(t *testing.T, h *Harness) {
	const limit = 5
	limits := core.TenantLimits{InFlight: limit}
	var inFlight, highest, admitted atomic.Int64
	var wg sync.WaitGroup
	for worker := range h.Workers {
		wg.Go(func() {
			for round := range h.Rounds {
				p := jobOf("acme", fmt.Sprintf("job-%d-%d", worker, round), limits)
				v, err := h.Store.AdmitMember(t.Context(), p)
				if err != nil {
					t.Error(err)
					return
				}
				if v.Refused != store.NoLimit {
					continue
				}
				admitted.Add(1)
				now := inFlight.Add(1)
				for old := highest.Load(); now > old && !highest.CompareAndSwap(old, now); old = highest.Load() {
				}
				use, err := h.Store.ReadTenants(t.Context(), []core.TenantID{"acme"}) // others admit theirs meanwhile
				if err != nil || use[0].InFlight < 1 || use[0].InFlight > limit {
					t.Errorf("%+v, %v, want 1 to %d in flight", use, err, limit)
					return
				}
				inFlight.Add(-1)
				if err := h.Store.RemoveMember(t.Context(), p); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if highest.Load() > limit || admitted.Load() == 0 {
		t.Errorf("%d were in flight at once, want %d at most; %d were admitted", highest.Load(), limit, admitted.Load())
	}
	wantUse(t, h, map[core.TenantID]store.TenantUse{"acme": {}})
}

func testTenantExpiry(t *testing.T, h *Harness) {
	limits, keep := core.TenantLimits{InFlight: 2}, h.Timing.Presence
	repeatWhileSlow(t, func(name core.NodeID) (inTime bool) {
		tenant := core.TenantID(name)
		began := time.Now()
		renewed, other := jobOf(tenant, "renewed", limits), jobOf(tenant, "other", limits)
		renewed.Keep, other.Keep = keep, keep
		admitMember(t, h, renewed, store.NoLimit)
		admitMember(t, h, other, store.NoLimit)
		h.Wait(keep / 2)
		missing, err := h.Store.RenewMembers(t.Context(), store.RenewParams{
			Tenant: tenant, Kind: store.TenantJob, Members: []string{"renewed", "unknown"}, Keep: 4 * keep,
		})
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(began) >= keep {
			return false
		}
		if !slices.Equal(missing, []string{"unknown"}) {
			t.Errorf("%q are missing, want the unknown one", missing)
		}
		h.Wait(keep/2 + h.Slack)
		wantUse(t, h, map[core.TenantID]store.TenantUse{tenant: {InFlight: 1}})
		// A shorter renewal does not shorten the life of a member.
		missing, err = h.Store.RenewMembers(t.Context(),
			store.RenewParams{Tenant: tenant, Kind: store.TenantJob, Members: []string{"renewed", "other"}, Keep: keep})
		if inTime = time.Since(began) < 4*keep; inTime && (err != nil || !slices.Equal(missing, []string{"other"})) {
			t.Errorf("%q are missing, %v, want the one that was not renewed", missing, err)
		}
		h.Wait(keep + h.Slack)
		use, err := h.Store.ReadTenants(t.Context(), []core.TenantID{tenant})
		if inTime = time.Since(began) < 4*keep; inTime && (err != nil || use[0].InFlight != 1) {
			t.Errorf("%+v, %v, want the renewed member", use, err)
		}
		return inTime
	})
}

func testTenantReadmitted(t *testing.T, h *Harness) {
	limits, keep := core.TenantLimits{InFlight: 3, DispatchRate: 3}, h.Timing.Presence
	repeatWhileSlow(t, func(name core.NodeID) (inTime bool) {
		began := time.Now()
		job := func(member string, keep time.Duration) store.MemberParams {
			p := jobOf(core.TenantID(name), member, limits)
			p.Keep = keep
			return p
		}
		restored := job("restored", keep)
		restored.Restore = true
		admitMember(t, h, job("longer", keep), store.NoLimit)
		admitMember(t, h, job("shorter", 10*keep), store.NoLimit)
		admitMember(t, h, job("restored", 10*keep), store.NoLimit)
		admitMember(t, h, job("longer", 10*keep), store.NoLimit) // it takes no token again
		admitMember(t, h, job("shorter", keep), store.NoLimit)
		admitMember(t, h, restored, store.NoLimit)
		h.Wait(keep + h.Slack)
		missing, err := h.Store.RenewMembers(t.Context(), store.RenewParams{
			Tenant: core.TenantID(name), Kind: store.TenantJob, Members: []string{"longer", "shorter", "restored"},
		})
		if time.Since(began) > 8*keep {
			return false
		}
		if err != nil || !slices.Equal(missing, []string{"shorter"}) {
			t.Errorf("%q are missing, %v, want the one that got a shorter time", missing, err)
		}
		return true
	})
}

func testDispatchRate(t *testing.T, h *Harness) {
	const perSecond = 2
	limits := core.TenantLimits{DispatchRate: perSecond}
	repeatWhileSlow(t, func(name core.NodeID) (inTime bool) {
		tenant := core.TenantID(name)
		began := time.Now()
		for i := range perSecond {
			admitMember(t, h, jobOf(tenant, fmt.Sprint("job-", i), limits), store.NoLimit)
		}
		v, err := h.Store.AdmitMember(t.Context(), jobOf(tenant, "over", limits))
		if err != nil {
			t.Fatal(err)
		}
		use, err := h.Store.ReadTenants(t.Context(), []core.TenantID{tenant})
		if time.Since(began) >= time.Second/perSecond {
			return false
		}
		if v.Refused != store.LimitDispatchRate || v.RetryIn <= 0 || v.RetryIn > time.Second/perSecond {
			t.Errorf("one more: %+v", v)
		}
		if err != nil || use[0].DispatchesLeft(perSecond) >= 1 || use[0].DispatchDebt <= 0 {
			t.Errorf("use after all dispatches of a second: %+v, %v", use, err)
		}
		h.Wait(v.RetryIn + h.Slack)
		admitMember(t, h, jobOf(tenant, "over", limits), store.NoLimit)
		return true
	})
	// Less than one a second: one may begin at once, the next one after its time.
	slow := core.TenantLimits{DispatchRate: 0.1}
	admitMember(t, h, jobOf("slow", "a", slow), store.NoLimit)
	if v := admitMember(t, h, jobOf("slow", "b", slow), store.LimitDispatchRate); v.RetryIn > 10*time.Second || v.RetryIn < time.Second {
		t.Errorf("the second within ten seconds: %+v", v)
	}
	// A rate that is raised is in force at once.
	fast := core.TenantLimits{DispatchRate: 1000}
	admitMember(t, h, jobOf("slow", "c", fast), store.NoLimit)
}

func testAudioRate(t *testing.T, h *Harness) {
	const perMinute = 6000 // a hundred times as fast as speech
	repeatWhileSlow(t, func(name core.NodeID) (inTime bool) {
		utterance := func(member string, audio time.Duration) store.MemberParams {
			p := jobOf(core.TenantID(name), member, core.TenantLimits{AudioRate: perMinute})
			p.Audio = audio
			return p
		}
		began := time.Now()
		admitMember(t, h, utterance("a", time.Minute), store.NoLimit)
		admitMember(t, h, utterance("b", perMinute*time.Second+10*time.Second), store.NoLimit) // 70 s more than there may be, for 0.7 s
		v, err := h.Store.AdmitMember(t.Context(), utterance("c", time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		use, err := h.Store.ReadTenants(t.Context(), []core.TenantID{core.TenantID(name)})
		if time.Since(began) >= time.Second/2 {
			return false
		}
		if v.Refused != store.LimitAudioRate || v.RetryIn <= 0 || v.RetryIn > time.Second {
			t.Errorf("the utterance after the one that was too long: %+v", v)
		}
		if left := use[0].AudioLeft(perMinute); err != nil || left > 0 || left < -time.Minute-10*time.Second {
			t.Errorf("%v of audio is left, %v", left, err)
		}
		admitMember(t, h, utterance("without audio", 0), store.NoLimit)
		h.Wait(v.RetryIn + h.Slack)
		admitMember(t, h, utterance("c", time.Millisecond), store.NoLimit)
		return true
	})
}

func testTenantUndo(t *testing.T, h *Harness) {
	limits := core.TenantLimits{InFlight: 2, DispatchRate: 0.02, AudioRate: 1}
	job := func(member string) store.MemberParams {
		p := jobOf("acme", member, limits)
		p.Audio = 2 * time.Second
		return p
	}
	first := job("a")
	admitMember(t, h, first, store.NoLimit)
	admitMember(t, h, job("b"), store.LimitDispatchRate)
	removeMember(t, h, first) // it has ended: its tokens are spent
	admitMember(t, h, job("b"), store.LimitDispatchRate)

	limits.DispatchRate = 0
	second := job("b")
	admitMember(t, h, second, store.LimitAudioRate)
	limits.AudioRate = 0
	unlimited := job("b")
	admitMember(t, h, unlimited, store.NoLimit)
	removeMember(t, h, unlimited)

	other := store.MemberParams{
		Tenant: "other", Kind: store.TenantJob, Member: "a", Keep: time.Minute, Audio: 2 * time.Second,
		Limits: core.TenantLimits{DispatchRate: 0.02, AudioRate: 1},
	}
	admitMember(t, h, other, store.NoLimit)
	other.Undo = true
	removeMember(t, h, other)
	removeMember(t, h, other) // it gives back once
	use, err := h.Store.ReadTenants(t.Context(), []core.TenantID{"other"})
	if err != nil || use[0] != (store.TenantUse{}) {
		t.Errorf("use after the only job was undone: %+v, %v", use, err)
	}
	other.Undo, other.Member = false, "b"
	admitMember(t, h, other, store.NoLimit)
	other.Member = "c"
	admitMember(t, h, other, store.LimitDispatchRate)
}

func testTenantRestore(t *testing.T, h *Harness) {
	limits := core.TenantLimits{InFlight: 1, DispatchRate: 0.02}
	admitMember(t, h, jobOf("acme", "a", limits), store.NoLimit)
	lost := jobOf("acme", "b", limits)
	lost.Restore = true
	if v := admitMember(t, h, lost, store.NoLimit); v.Used != 2 {
		t.Errorf("%d are used, want 2", v.Used)
	}
	removeMember(t, h, jobOf("acme", "a", limits))
	admitMember(t, h, jobOf("acme", "c", limits), store.LimitInFlight)
	if _, err := h.Store.AdmitMember(expiredContext(t), jobOf("acme", "late", core.TenantLimits{})); err == nil {
		t.Error("a call after its deadline was accepted")
	}
	wantUse(t, h, map[core.TenantID]store.TenantUse{"acme": {InFlight: 1}})
}
