package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// fieldBehaviours says of each stored type that every field is kept.
var fieldBehaviours = []behaviour{
	{"a job keeps every field of its request", testJobFields},
	{"a node keeps every field that it declares", testNodeFields},
	{"a heartbeat changes every field that a node declares", testDeclaredFields},
	{"an admission keeps every field", testAdmissionFields},
	{"a mark keeps every field but its reason", testMarkFields},
	{"a session keeps every field of its state", testSessionFields},
	{"a revocation keeps every field", testRevocationFields},
	{"a waiter keeps every field", testWaiterFields},
}

func testJobFields(t *testing.T, h *Harness) {
	jobs := 0
	Fields[core.Spec]{
		Base: core.Spec{Request: "r", Session: "s", Direction: core.Direction{Src: "en", Tgt: "zh"}},
		Keep: func(t *testing.T, spec core.Spec) core.Spec {
			jobs++
			p := store.CreateParams{
				ID: core.JobID(fmt.Sprint("job-", jobs)), Spec: spec, Fingerprint: "f",
				Holder: core.Holder{Attempt: 1, Node: "n", Epoch: 1}, Token: "t", Timeout: time.Minute,
			}
			if _, created, err := h.Store.Create(t.Context(), p); err != nil || !created {
				t.Fatalf("create: %v, %v", created, err)
			}
			job, err := h.Store.Get(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			return job.Spec
		},
	}.Check(t)
}

func testNodeFields(t *testing.T, h *Harness) {
	nodes := 0
	Fields[core.Declaration]{
		Base: core.Declaration{Health: core.HealthReady},
		Keep: func(t *testing.T, d core.Declaration) core.Declaration {
			nodes++
			n := core.Node{ID: core.NodeID(fmt.Sprint("node-", nodes)), Declaration: d}
			if _, err := h.Store.Register(t.Context(), store.RegisterParams{Node: n, Load: core.UnknownLoad}); err != nil {
				t.Fatal(err)
			}
			return h.declared(t, n.ID)
		},
	}.Check(t)
}

func testDeclaredFields(t *testing.T, h *Harness) {
	nodes := 0
	Fields[core.Declaration]{
		Base: core.Declaration{Health: core.HealthReady}, Except: []string{"Services.ReadySince"},
		Keep: func(t *testing.T, d core.Declaration) core.Declaration {
			nodes++
			id := core.NodeID(fmt.Sprint("node-", nodes))
			known := h.register(t, id, 0)
			p := store.HeartbeatParams{Node: id, Known: known, Declared: &core.Node{Declaration: d}, Load: core.UnknownLoad}
			if r, err := h.Store.Heartbeat(t.Context(), p); err != nil || r.Verdict != store.OK {
				t.Fatalf("heartbeat: %v, %v", r.Verdict, err)
			}
			got := h.declared(t, id)
			for i := range got.Services {
				got.Services[i].ReadySince = 0
			}
			return got
		},
	}.Check(t)
}

// declared returns what a node of the store declares.
func (h *Harness) declared(t *testing.T, id core.NodeID) core.Declaration {
	t.Helper()
	status, err := store.ReadNode(t.Context(), h.Store, id)
	if err != nil {
		t.Fatal(err)
	}
	return status.Node.Declaration
}

func testAdmissionFields(t *testing.T, h *Harness) {
	h.register(t, "node-a", 8)
	fence := int64(0)
	Fields[core.Admission]{
		// the store decides the times
		Base: core.Admission{Limited: true, Reason: core.AdmissionFailing}, Except: []string{"Since", "Until"},
		Values: map[string]any{"Reason": core.AdmissionSilent},
		Keep: func(t *testing.T, a core.Admission) core.Admission {
			fence++
			p := store.AdmitParams{Node: "node-a", Fence: fence, Admission: a, For: time.Minute}
			if _, admitted, err := h.Store.Admit(t.Context(), p); err != nil || !admitted {
				t.Fatalf("admit: %v, %v", admitted, err)
			}
			status, err := store.ReadNode(t.Context(), h.Store, "node-a")
			if err != nil {
				t.Fatal(err)
			}
			got := status.Node.Admission
			if got.Since.IsZero() || !got.Until.After(got.Since) {
				t.Errorf("the admission is from %v until %v", got.Since, got.Until)
			}
			got.Since, got.Until = time.Time{}, time.Time{}
			return got
		},
	}.Check(t)
}

func testMarkFields(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	Fields[store.Mark]{
		// that of the node, and the rest of the time
		Base: store.Mark{Node: n.ID, Epoch: n.Epoch, For: time.Minute}, Except: []string{"Node", "Epoch", "For", "Reason"},
		Keep: func(t *testing.T, m store.Mark) store.Mark {
			n = h.register(t, "node-a", 1) // removes the marks
			kept := m
			m.Epoch = n.Epoch
			h.mark(t, m)
			got := listMarks(t, h, n.ID, m.For)
			if len(got) != 1 || got[0].Epoch != n.Epoch {
				t.Fatalf("%v is kept as %v", m, got)
			}
			got[0].Epoch, got[0].For = kept.Epoch, kept.For
			return got[0]
		},
	}.Check(t)
}

func testSessionFields(t *testing.T, h *Harness) {
	sessions := 0
	Fields[store.SessionState]{
		Base: store.SessionState{Ownership: store.Ownership{Owner: "i-0", Epoch: 1}, Incarnation: "a"}, Values: map[string]any{"Epoch": 1},
		Keep: func(t *testing.T, s store.SessionState) store.SessionState {
			sessions++
			ref := core.SessionRef{SessionKey: core.SessionKey{Tenant: "acme", Name: core.SessionID(fmt.Sprint("s-", sessions))},
				Incarnation: s.Incarnation}
			p := store.SaveParams{Session: ref, Ownership: s.Ownership, TakeOver: true, Body: s.Body, Keep: time.Minute}
			if held, err := h.Store.SaveSession(t.Context(), p); err != nil || !held {
				t.Fatalf("save: %v, %v", held, err)
			}
			got, err := h.Store.LoadSession(t.Context(), ref.SessionKey)
			if err != nil {
				t.Fatal(err)
			}
			return got
		},
	}.Check(t)
}

func testRevocationFields(t *testing.T, h *Harness) {
	entries := 0
	Fields[store.Revocation]{
		Base: store.Revocation{RevocationTarget: store.RevocationTarget{Kind: store.RevokedSession, Tenant: "acme"},
			At: time.UnixMicro(1_700_000_000_000_001).UTC()},
		Values: map[string]any{"Kind": store.RevokedSession, "Name": "s",
			"Until": time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()},
		Keep: func(t *testing.T, r store.Revocation) store.Revocation {
			entries++
			name := r.Name
			r.Name = fmt.Sprint(name, entries)
			if _, err := h.Store.PutRevocations(t.Context(), store.PutRevocationsParams{Entries: []store.Revocation{r}}); err != nil {
				t.Fatal(err)
			}
			page, err := h.Store.ReadRevocations(t.Context(), time.Time{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range page.Entries {
				if got.Name == r.Name {
					got.Name = name
					return got
				}
			}
			return store.Revocation{}
		},
	}.Check(t)
}

func testWaiterFields(t *testing.T, h *Harness) {
	now, err := h.Store.Clock(t.Context(), store.ClockKey{})
	if err != nil {
		t.Fatal(err)
	}
	clock := now.UnixMilli()
	pools := 0
	Fields[fairqueue.Waiter]{
		Base:   fairqueue.Waiter{ID: "w", Class: "c", Instance: "i", Since: clock, Deadline: clock + time.Minute.Milliseconds()},
		Values: map[string]any{"Since": clock - 1, "Deadline": clock + time.Hour.Milliseconds()},
		Keep: func(t *testing.T, w fairqueue.Waiter) fairqueue.Waiter {
			pools++
			pool := core.PoolID(fmt.Sprint("pool-", pools))
			if r, err := h.Store.Enqueue(t.Context(), pool,
				fairqueue.EnqueueParams{Waiter: w, Requirements: "{}", Weight: 1, MaxWaiting: 10}); err != nil ||
				r.Verdict != fairqueue.Queued {
				t.Fatalf("enqueue: %v, %v", r.Verdict, err)
			}
			v, err := h.Store.ViewQueue(t.Context(), pool, fairqueue.ViewParams{Flows: 1, Waiters: 1})
			if err != nil || len(v.Flows) != 1 || len(v.Flows[0].Waiters) != 1 {
				t.Fatalf("view: %+v, %v", v, err)
			}
			return v.Flows[0].Waiters[0]
		},
	}.Check(t)
}
