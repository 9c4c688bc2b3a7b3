package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// sessionBehaviours is the specification of Sessions.
var sessionBehaviours = []behaviour{
	{"a saved state is loaded until it expires", testSaveSession},
	{"a session is started once", testStartSessionOnce},
	{"of concurrent takeovers one succeeds, and the previous owner cannot save", testConcurrentTakeovers},
	{"a takeover succeeds only if the state is the one that was read", testTakeoverOfExpectedState},
	{"a store that has lost its last writes accepts the current owner", testSaveAfterLostWrites},
	{"two tenants can use the same session name", testSessionNamesOfTenants},
	{"a session name that is used again has a new outbox", testReusedSessionName},
	{"the owner of an earlier incarnation cannot save, whatever its epoch", testSaveOfEarlierIncarnation},
}

func testSaveSession(t *testing.T, h *Harness) {
	if got := h.load(t); got.Epoch != 0 || got.Body != nil {
		t.Fatalf("an unknown session: %+v", got)
	}
	if !h.save(t, "i-1", 1, starting) || !h.save(t, "i-1", 1, func(p *store.SaveParams) { p.Body = []byte("two\nlines") }) {
		t.Fatal("the save of the owner was refused")
	}
	want := store.SessionState{Ownership: store.Ownership{Owner: "i-1", Epoch: 1}, Incarnation: session1.Incarnation,
		Body: []byte("two\nlines")}
	if diff := cmp.Diff(want, h.load(t)); diff != "" {
		t.Errorf("the last saved state (-want +got):\n%s", diff)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if got := h.load(t); got.Epoch != 0 {
		t.Errorf("after its expiry: %+v", got)
	}
}

func testStartSessionOnce(t *testing.T, h *Harness) {
	if !h.save(t, "i-1", 1, starting) {
		t.Fatal("the first start was refused")
	}
	if h.save(t, "i-2", 1, starting) || h.save(t, "i-1", 1, starting, func(p *store.SaveParams) { p.Body = []byte("another") }) {
		t.Error("a second start was accepted")
	}
	if got := h.load(t); got.Owner != "i-1" {
		t.Errorf("the owner is %s", got.Owner)
	}
}

func testConcurrentTakeovers(t *testing.T, h *Harness) {
	if !h.save(t, "i-0", 1, starting) {
		t.Fatal("the start was refused")
	}
	held := make([]bool, 8)
	var wg sync.WaitGroup
	for i := range held {
		wg.Go(func() { held[i] = h.save(t, core.InstanceID(fmt.Sprintf("i-%d", i+1)), 2, takingOver("of i-0")) })
	}
	wg.Wait()
	now := h.load(t)
	for i, isHeld := range held {
		if id := core.InstanceID(fmt.Sprintf("i-%d", i+1)); isHeld != (id == now.Owner) {
			t.Errorf("%s got %v; the owner is %s", id, isHeld, now.Owner)
		}
	}
	if h.save(t, "i-0", 1) || h.save(t, "i-0", 2) || h.save(t, "i-0", 1, starting) {
		t.Error("a save of the previous owner was accepted")
	}
	if diff := cmp.Diff(now, h.load(t)); diff != "" {
		t.Errorf("the state has changed (-before +after):\n%s", diff)
	}
}

func testTakeoverOfExpectedState(t *testing.T, h *Harness) {
	h.save(t, "i-0", 1, starting)
	h.save(t, "i-0", 1, func(p *store.SaveParams) { p.Body = []byte("newer") })
	if h.save(t, "i-1", 2, takingOver("of i-0")) {
		t.Error("a takeover with an outdated state was accepted")
	}
	if !h.save(t, "i-1", 2, takingOver("newer")) {
		t.Error("the takeover was refused")
	}
}

func testSaveAfterLostWrites(t *testing.T, h *Harness) {
	h.save(t, "i-0", 1, starting)
	appendBy(t, h, 0, store.Ownership{})
	// The store has lost the takeover by i-1, and the second message.
	owner := store.Ownership{Owner: "i-1", Epoch: 2}
	if a := appendBy(t, h, 3, owner); a.Refused || a.Seq != 1 {
		t.Errorf("a message of the owner: %+v", a)
	}
	if !h.save(t, "i-1", 2, func(p *store.SaveParams) { p.Known = 3 }) {
		t.Error("the save of the owner was refused")
	}
	if h.save(t, "i-0", 1) {
		t.Error("a save of the previous owner was accepted")
	}
	if a := appendBy(t, h, 4, store.Ownership{}); a.Seq != 5 {
		t.Errorf("the waiting message did not enter the stream: %+v", a)
	}
	got, err := h.Store.Read(t.Context(), store.ReadParams{Session: session1, After: 1})
	if err != nil || len(got) != 2 || got[0].Seq != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func testSessionNamesOfTenants(t *testing.T, h *Harness) {
	if !h.startSession(t, session1) || !h.startSession(t, otherTenant) {
		t.Fatal("the second start was refused")
	}
	h.appendMessage(t, store.AppendParams{Session: session1, Body: []byte("of acme")})
	if got := h.positions(t, otherTenant); got != nil {
		t.Errorf("the other tenant reads %v", got)
	}
	st, err := h.Store.LoadSession(t.Context(), otherTenant.SessionKey)
	if err != nil || string(st.Body) != otherTenant.String() {
		t.Errorf("the other tenant's state is %q, %v", st.Body, err)
	}
}

func testReusedSessionName(t *testing.T, h *Harness) {
	h.startSession(t, session1)
	h.appendMessage(t, store.AppendParams{Session: session1, Index: 1, Body: []byte("early")})
	h.Wait(h.Timing.Presence + h.Slack) // the state expires; the outbox, which is kept longer, does not
	if a := h.appendMessage(t, store.AppendParams{Session: session1, Index: 0, Body: []byte("late")}); a.Refused || a.Seq != 2 {
		t.Errorf("a late message of a session whose state has expired: %+v", a)
	}
	if !h.startSession(t, secondIncarnation) {
		t.Fatal("the start of the second incarnation was refused")
	}
	if got := h.positions(t, secondIncarnation); got != nil {
		t.Errorf("the second incarnation reads %v of the first", got)
	}
	if waiting, err := h.Store.Waiting(t.Context(), secondIncarnation); err != nil || len(waiting) > 0 {
		t.Errorf("messages %v wait in the second incarnation, %v", waiting, err)
	}
	if a := h.appendMessage(t, store.AppendParams{Session: session1, Index: 2, Body: []byte("later")}); !a.Refused || a.Owner != "" {
		t.Errorf("a message of the first incarnation: %+v", a)
	}
	if a := h.appendMessage(t, store.AppendParams{Session: secondIncarnation, Index: 0, Body: []byte("its own")}); a.Refused ||
		a.Seq != 1 || a.Owner != "i-1" {
		t.Errorf("a message of the second incarnation: %+v", a)
	}
}

func testSaveOfEarlierIncarnation(t *testing.T, h *Harness) {
	h.startSession(t, secondIncarnation)
	for _, takeOver := range []bool{false, true} {
		held, err := h.Store.SaveSession(t.Context(), store.SaveParams{
			Session: session1, Ownership: store.Ownership{Owner: "i-9", Epoch: 2}, TakeOver: takeOver,
			Expected: []byte(secondIncarnation.String()), Body: []byte("stale"), Keep: h.Timing.Presence,
		})
		if err != nil || held {
			t.Errorf("take over %v: held %v, %v", takeOver, held, err)
		}
	}
	st, err := h.Store.LoadSession(t.Context(), secondIncarnation.SessionKey)
	if err != nil || st.Incarnation != secondIncarnation.Incarnation || string(st.Body) != secondIncarnation.String() {
		t.Errorf("the state is %+v, %v", st, err)
	}
}

// The sessions of these tests.
var (
	session1          = core.SessionRef{SessionKey: core.SessionKey{Tenant: "acme", Name: "room-1"}, Incarnation: "first"}
	secondIncarnation = core.SessionRef{SessionKey: session1.SessionKey, Incarnation: "second"}
	otherTenant       = core.SessionRef{SessionKey: core.SessionKey{Tenant: "beta", Name: session1.Name}, Incarnation: session1.Incarnation}
)

// startSession starts a session owned by i-1 and reports whether the store accepted it.
func (h *Harness) startSession(t *testing.T, session core.SessionRef) bool {
	t.Helper()
	held, err := h.Store.SaveSession(t.Context(), store.SaveParams{
		Session: session, Ownership: store.Ownership{Owner: "i-1", Epoch: 1}, TakeOver: true, Body: []byte(session.String()),
		Keep: h.Timing.Presence,
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// save saves session1 with the body "of <owner>", unless a change says otherwise, and reports whether the store accepted it.
func (h *Harness) save(t *testing.T, owner core.InstanceID, epoch int64, change ...func(*store.SaveParams)) bool {
	t.Helper()
	p := store.SaveParams{
		Session: session1, Ownership: store.Ownership{Owner: owner, Epoch: epoch}, Body: fmt.Appendf(nil, "of %s", owner),
		Keep: h.Timing.Presence,
	}
	for _, c := range change {
		c(&p)
	}
	held, err := h.Store.SaveSession(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// starting is a change for save: the session does not exist yet.
func starting(p *store.SaveParams) { p.TakeOver = true }

// takingOver is a change for save: the session is taken over with the expected body.
func takingOver(expected string) func(*store.SaveParams) {
	return func(p *store.SaveParams) { p.TakeOver, p.Expected = true, []byte(expected) }
}

// load loads the state of session1.
func (h *Harness) load(t *testing.T) store.SessionState {
	t.Helper()
	st, err := h.Store.LoadSession(t.Context(), session1.SessionKey)
	if err != nil {
		t.Fatal(err)
	}
	return st
}
