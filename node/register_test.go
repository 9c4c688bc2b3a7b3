package node_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestRegistration(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.ID, cfg.Token, cfg.Slots = "gpu-7", "node-token", 3
	start(t, cfg, node.Quick{})
	p := s.connection()
	if got := p.header.Get("Authorization"); got != "Bearer node-token" {
		t.Errorf("Authorization: %q", got)
	}
	if got := p.conn.Subprotocol(); got != wire.Subprotocol {
		t.Errorf("subprotocol %q", got)
	}
	m, _ := p.next()
	var got map[string]any
	if err := json.Unmarshal(m.text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "node_register", "node_id": "gpu-7", "semantic_langs": []any{"en", "es"}, "max_concurrent_jobs": 3.0, "active": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node_register (-want +got):\n%s", diff)
	}
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	half := 0.5
	cfg := basic(s.URL)
	cfg.Load = func() wire.Load { return wire.Load{GPU: &half} }
	b := start(t, cfg, node.Quick{})
	ack := anyAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.registered(ack)
	for want := uint64(1); want <= 3; want++ {
		hb := p.heartbeat()
		if hb.HBSeq == nil || *hb.HBSeq != want {
			t.Fatalf("hb_seq %v, want %d", hb.HBSeq, want)
		}
		if hb.Active == nil || len(hb.Active) > 0 || hb.CurrentLoad == nil || *hb.CurrentLoad.GPU != half || hb.Health != "" {
			t.Fatalf("heartbeat %+v", hb)
		}
	}

	// A job is listed until its outcome is acknowledged.
	key := p.assign("j-1")
	listed := []wire.ActiveAttempt{{ActiveJob: key}}
	if diff := cmp.Diff(listed, p.heartbeat().Active); diff != "" {
		t.Errorf("while it runs (-want +got):\n%s", diff)
	}
	b.next().done("hola")
	expect[wire.JobResult](p)
	if diff := cmp.Diff(listed, p.heartbeat().Active); diff != "" {
		t.Errorf("before the acknowledgement (-want +got):\n%s", diff)
	}
	p.acknowledge(key)
	for until := time.Now().Add(patience); len(p.heartbeat().Active) > 0; {
		if time.Now().After(until) {
			t.Fatal("it is still listed after the acknowledgement")
		}
	}
}

// TestUnaskedRegistration: the scheduler lost the node and registered it again.
func TestUnaskedRegistration(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	start(t, basic(s.URL), node.Quick{})
	ack := anyAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.registered(ack)
	key := p.assign("j-1")
	for *p.heartbeat().HBSeq < 3 {
		continue
	}
	again := ack
	again.Epoch, again.ResumeToken = 8, "token-2"
	p.send(again)
	for until := time.Now().Add(patience); ; {
		hb := p.heartbeat()
		if diff := cmp.Diff([]wire.ActiveAttempt{{ActiveJob: key}}, hb.Active); diff != "" {
			t.Fatalf("active (-want +got):\n%s", diff)
		}
		if *hb.HBSeq == 1 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("hb_seq is %d and was never 1 again", *hb.HBSeq)
		}
	}
	p.cut()
	if _, r := s.registered(again); r.ResumeToken != "token-2" {
		t.Errorf("resumed with %q, want the token of the last registration", r.ResumeToken)
	}
}

// TestSequenceWithinAnEpoch: a resumed node goes on counting, one with a new life begins anew.
func TestSequenceWithinAnEpoch(t *testing.T) {
	t.Parallel()
	for status, epoch := range map[string]int64{"resumed": 7, "registered": 8} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t)
			start(t, basic(s.URL), node.Quick{})
			ack := anyAck
			ack.HeartbeatIntervalMS = 20
			p, _ := s.registered(ack)
			last := *p.heartbeat().HBSeq
			p.cut()
			ack.Epoch, ack.Status = epoch, status
			p, _ = s.registered(ack)
			got := *p.heartbeat().HBSeq
			if epoch == 7 && got <= last || epoch == 8 && got != 1 {
				t.Errorf("hb_seq %d after %d", got, last)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*node.Config)
		want   string
	}{
		"no url":     {func(c *node.Config) { c.URL = "" }, "URL must be"},
		"no host":    {func(c *node.Config) { c.URL = "127.0.0.1:5010" }, "URL must be"},
		"user":       {func(c *node.Config) { c.URL = "http://me:secret@host" }, "Config.Token"},
		"urls":       {func(c *node.Config) { c.URL, c.URLs = "", []string{"http://a", "ftp://b"} }, "must begin with"},
		"scheme":     {func(c *node.Config) { c.URL = "ftp://host" }, "must begin with"},
		"no slots":   {func(c *node.Config) { c.Slots = 0 }, "Slots"},
		"many slots": {func(c *node.Config) { c.Slots = 10001 }, "Slots"},
		"no langs":   {func(c *node.Config) { c.Declaration.SemanticLangs = nil }, "SemanticLangs"},
		"id":         {func(c *node.Config) { c.ID = "a b" }, "ID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := basic("http://127.0.0.1:1")
			c.change(&cfg)
			if err := serve(t, cfg, node.Quick{}, echo).over(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run: %v, want something about %s", err, c.want)
			}
		})
	}
	t.Run("no handler", func(t *testing.T) {
		t.Parallel()
		if err := node.Run(t.Context(), basic("http://127.0.0.1:1"), nil); err == nil {
			t.Error("a node without a handler ran")
		}
	})
}
