package server_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestForgottenNodeKeepsItsDeclaration: a connected node that the store has forgotten is registered again from all that it
// has declared over its connection, also when its next heartbeat says enough for a registration of its own.
func TestForgottenNodeKeepsItsDeclaration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.connect("/ws/node")
	n.say(obj{
		"type": "node_register", "node_id": "n1", "semantic_langs": []string{"en", "zh"}, "tts_langs": []string{"en", "zh"},
		"max_concurrent_jobs": 2, "active": []obj{}, "tenant_id": "acme", "region": "eu", "installed_models": []string{"m1"},
	})
	first := n.until("node_register_ack")
	if err := w.s.Store.Remove(t.Context(), store.RemoveParams{Node: "n1"}); err != nil {
		t.Fatal(err)
	}
	n.say(obj{
		"type": "node_heartbeat", "hb_seq": 1, "active": []obj{}, "health": "ready", "max_concurrent_jobs": 7,
		"semantic_langs": []string{"en", "zh", "de"},
	})
	again := n.until("node_register_ack")
	got := w.status("n1")
	if again["epoch"] != float64(got.Epoch) || again["epoch"] == first["epoch"] || again["resume_token"] == first["resume_token"] {
		t.Errorf("told %v, was told %v; the store says epoch %d", again, first, got.Epoch)
	}
	if got.Incarnation == "" || got.TenantID != "acme" || got.Region != "eu" || len(got.InstalledModels) != 1 ||
		got.MaxConcurrentJobs != 7 || len(got.SemanticLangs) != 3 || len(got.TTSLangs) != 2 {
		t.Errorf("it is registered as %+v", got)
	}
	// It goes on in the epoch it was told, and is given work.
	n.say(obj{"type": "node_heartbeat", "hb_seq": 2, "epoch": again["epoch"], "active": []obj{}, "max_concurrent_jobs": 8})
	w.eventually("the next heartbeat counts", func() bool { return w.status("n1").MaxConcurrentJobs == 8 })
	p := w.placed(utterance(obj{"tenant_id": "acme"}))
	if a := n.until("job_assign"); a["job_id"] != p.JobID {
		t.Errorf("assigned %v, placed %+v", a, p)
	}
}
