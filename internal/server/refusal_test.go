package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestNoCapableNode says what nobody has, in the words of the contract.
func TestNoCapableNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("n1", nil)
	for want, body := range map[string]obj{
		"No node supports semantic(de) + nmt(de->zh).":                utterance(obj{"src_lang": "de"}),
		"No node supports semantic(en) + nmt(en->fr).":                utterance(obj{"tgt_lang": "fr"}),
		"No node supports semantic(en) + nmt(en->zh-TW).":             utterance(obj{"tgt_lang": "zh-TW"}),
		"No node supports semantic(en) + nmt(en->zh) + model(m).":     utterance(obj{"options": obj{"required_models": []string{"m"}}}),
		"No node supports semantic(en) + nmt(en->zh) + service(s).":   utterance(obj{"options": obj{"required_services": []string{"s"}}}),
		"No node supports semantic(en) + nmt(en->zh) + feature(f).":   utterance(obj{"options": obj{"features": []string{"f"}}}),
		"No node supports semantic(en) + nmt(en->zh) + region(mars).": utterance(obj{"options": obj{"region": "mars"}}),
	} {
		a := w.post("/v1/dispatch/f2f", body)
		if e := a.refused(wire.NoCapableNode); e.Detail != want {
			t.Errorf("want %q, got %q", want, e.Detail)
		}
	}
	w.nothing()
}

// TestFull says how many nodes were full and when to come back.
func TestFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("a", obj{"max_concurrent_jobs": 1})
	w.node("b", obj{"max_concurrent_jobs": 1})
	w.node("c", obj{"max_concurrent_jobs": 0})
	w.begin(utterance(nil))
	w.begin(utterance(nil))
	a := w.post("/v1/dispatch/f2f", utterance(nil))
	e := a.refused(wire.AllCandidatesFullOrFailed)
	if diff := cmp.Diff(map[string]int{"FULL": 2, "NO_CAPACITY": 1}, e.Reasons); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if a.header.Get("Retry-After") != "1" || e.RetryAfter != 1 || e.RetryAfterMS != 1000 {
		t.Errorf("Retry-After: %q and %d", a.header.Get("Retry-After"), e.RetryAfter)
	}
	w.nothing()
}

// TestEverybodyRefuses tells the caller, when each node that has room refuses the job.
func TestEverybodyRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"a", "b"} {
		w.node(id, nil).answers(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadRequest) })
	}
	a := w.post("/v1/dispatch/f2f", utterance(nil))
	a.refused(wire.AllCandidatesFullOrFailed)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	for _, id := range []string{"a", "b"} {
		if s := w.status(id); s.EffectiveLoad != 0 {
			t.Errorf("%s still has a slot taken: %+v", id, s)
		}
	}
}

// prefers asks for a node.
func prefers(id string, strict bool) obj {
	return utterance(obj{"options": obj{"preferred_node_id": id, "strict": strict}})
}

// TestPreferredNode goes to the node that was asked for, and falls back when it has no room.
func TestPreferredNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("a", obj{"max_concurrent_jobs": 1})
	w.node("b", obj{"max_concurrent_jobs": 100})
	w.node("german", obj{"semantic_langs": []string{"de"}, "nmt_pairs": nil})

	for _, strict := range []bool{false, true} {
		d, n := w.begin(prefers("a", strict))
		if n.id != "a" {
			t.Errorf("strict %t: want a, got %s", strict, n.id)
		}
		if _, n := w.begin(prefers("a", false)); n.id != "b" {
			t.Errorf("a is full: want b, got %s", n.id)
		}
		refusal := w.post("/v1/dispatch/f2f", prefers("a", true))
		if e := refusal.refused(wire.AllCandidatesFullOrFailed); e.Reasons["FULL"] != 1 || refusal.header.Get("Retry-After") == "" {
			t.Errorf("strict and full: %+v", e)
		}
		n.done(d, nil).ok()

		for _, id := range []string{"german", "nobody"} {
			e := w.post("/v1/dispatch/f2f", prefers(id, strict)).refused(wire.PreferredNodeNotCapable)
			if e.Field != "options.preferred_node_id" || !strings.Contains(e.Detail, id) {
				t.Errorf("want the field and the node named, got %+v", e)
			}
		}
	}
	w.ask("POST", "/v1/nodes/a/drain", "", nil)
	if _, n := w.begin(prefers("a", false)); n.id != "b" {
		t.Errorf("a is away: want b, got %s", n.id)
	}
	w.post("/v1/dispatch/f2f", prefers("a", true)).refused(wire.AllCandidatesFullOrFailed)
	w.nothing()
}

// TestStrictJobStays does not move a job that may only run on one node.
func TestStrictJobStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("a", nil)
	w.node("b", nil)
	d, _ := w.begin(prefers("a", true))
	n.fail(d, nil).ok()
	if j := w.reaches(d.JobID, "FAILED"); j.Reason != "NODE_FAILED" || j.Detail != "MODEL_LOAD_FAILED" {
		t.Errorf("want the node's own failure as the reason, got %+v", j)
	}
	w.nothing()
}
