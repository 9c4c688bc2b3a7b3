package node_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestRegistration(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.ID, cfg.Token, cfg.Slots = "gpu-7", "node-token", 3
	startNode(t, cfg, node.FastTiming{})
	p := s.awaitConn()
	if got := p.header.Get("Authorization"); got != "Bearer node-token" {
		t.Errorf("Authorization: %q", got)
	}
	if got := p.ws.Subprotocol(); got != wire.Subprotocol {
		t.Errorf("subprotocol %q", got)
	}
	m, _ := p.next()
	var got map[string]any
	if err := json.Unmarshal(m.text, &got); err != nil {
		t.Fatal(err)
	}
	secret, _ := got["resume_token"].(string)
	if delete(got, "resume_token"); len(secret) < 16 {
		t.Errorf("the first registration has the secret %q", secret)
	}
	want := map[string]any{
		"type": "node_register", "node_id": "gpu-7", "semantic_langs": []any{"en", "es"}, "max_concurrent_jobs": 3.0, "active": []any{}, "keepalive_ms": 1500.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node_register (-want +got):\n%s", diff)
	}
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	half := 0.5
	cfg := testConfig(s.URL)
	cfg.Load = func() wire.Load { return wire.Load{GPU: &half} }
	n := startNode(t, cfg, node.FastTiming{})
	ack := defaultAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.register(ack)
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
	n.awaitCall().finish("hola")
	expect[wire.JobResult](p)
	if diff := cmp.Diff(listed, p.heartbeat().Active); diff != "" {
		t.Errorf("before the acknowledgement (-want +got):\n%s", diff)
	}
	p.acknowledge(key)
	for until := time.Now().Add(timeout); len(p.heartbeat().Active) > 0; {
		if time.Now().After(until) {
			t.Fatal("it is still listed after the acknowledgement")
		}
	}
}

// The scheduler lost the node and registered it again.
func TestUnsolicitedRegistration(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNode(t, testConfig(s.URL), node.FastTiming{})
	ack := defaultAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.register(ack)
	key := p.assign("j-1")
	for *p.heartbeat().HBSeq < 3 {
		continue
	}
	again := ack
	again.Epoch, again.ResumeToken = 8, "token-2"
	p.send(again)
	for until := time.Now().Add(timeout); ; {
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
	p.drop()
	if _, r := s.register(again); r.ResumeToken != "token-2" {
		t.Errorf("resumed with %q, want the token of the last registration", r.ResumeToken)
	}
}

func TestHeartbeatNumbersRestartPerEpoch(t *testing.T) {
	t.Parallel()
	for status, epoch := range map[string]int64{"resumed": 7, "registered": 8} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			s := newFakeScheduler(t)
			startNode(t, testConfig(s.URL), node.FastTiming{})
			ack := defaultAck
			ack.HeartbeatIntervalMS = 20
			p, _ := s.register(ack)
			last := *p.heartbeat().HBSeq
			p.drop()
			ack.Epoch, ack.Status = epoch, status
			p, _ = s.register(ack)
			got := *p.heartbeat().HBSeq
			if epoch == 7 && got <= last || epoch == 8 && got != 1 {
				t.Errorf("hb_seq %d after %d", got, last)
			}
		})
	}
}

func TestInvalidConfig(t *testing.T) {
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
			cfg := testConfig("http://127.0.0.1:1")
			c.change(&cfg)
			if err := startNodeWith(t, cfg, node.FastTiming{}, respondEcho).awaitResult(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run: %v, want something about %s", err, c.want)
			}
		})
	}
	t.Run("no handler", func(t *testing.T) {
		t.Parallel()
		if err := node.Run(t.Context(), testConfig("http://127.0.0.1:1"), nil); err == nil {
			t.Error("a node without a handler ran")
		}
	})
}

// Durations that overflow must neither end the node nor give a job a deadline in the past.
func TestExtremeDurations(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{math.MaxInt64, math.MaxInt64 / int64(time.Millisecond), 1 << 62, -1, math.MinInt64} {
		s := newFakeScheduler(t)
		n := startNode(t, testConfig(s.URL), node.FastTiming{})
		ack := defaultAck
		ack.HeartbeatIntervalMS = ms
		p, _ := s.register(ack)
		p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, TimeoutMS: ms})
		p.expectAck(wire.ActiveJob{JobID: "j-1", AttemptID: 1})
		if j := n.awaitCall(); j.ctx.Err() != nil || !j.Deadline.IsZero() && time.Until(j.Deadline) < time.Hour {
			t.Errorf("%d ms: the deadline is %v", ms, j.Deadline)
		}
		if ms > 0 {
			continue
		}
		p.send(wire.GoAway{ReconnectMS: ms})
		s.register(defaultAck)
	}
}

// A load that is not a number is unknown, one out of range is at the bound; JSON could not express the first.
func TestLoadIsClamped(t *testing.T) {
	t.Parallel()
	nan, less, more := math.NaN(), -0.5, 1.5
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.Load = func() wire.Load { return wire.Load{CPU: &nan, GPU: &less, Memory: &more} }
	startNode(t, cfg, node.FastTiming{})
	ack := defaultAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.register(ack)
	zero, one := 0.0, 1.0
	if diff := cmp.Diff(&wire.Load{GPU: &zero, Memory: &one}, p.heartbeat().CurrentLoad); diff != "" {
		t.Errorf("load (-want +got):\n%s", diff)
	}
}

// The node keeps its id and reconnects.
func TestAckForAnotherNodeIsRefused(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNode(t, testConfig(s.URL), node.FastTiming{})
	other := defaultAck
	other.NodeID = ""
	s.register(other)
	p, _ := s.register(defaultAck)
	other.Epoch, other.ResumeToken = 9, "token-9"
	p.send(other) // unsolicited
	other.NodeID = "n-2"
	p.send(other)
	p.assign("j-1")
	p.drop()
	if _, r := s.register(other); r.NodeID != "n-1" || r.ResumeToken != defaultAck.ResumeToken {
		t.Errorf("registered again as %q with %q", r.NodeID, r.ResumeToken)
	}
	s.register(defaultAck)
}

// A job and its audio may arrive before the answer to the registration.
func TestMessagesBeforeAckAreKept(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, echoAudio)
	p := s.awaitConn()
	expect[wire.NodeRegister](p)
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{}})
	p.sendAudio(key, 0, "abc", true)
	p.send(defaultAck)
	p.expectAck(key)
	expectEcho(t, p, "abc")
}

// The node gives up a connection on which messages arrive without end and no answer to the registration.
func TestTooManyMessagesBeforeAck(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNode(t, testConfig(s.URL), node.FastTiming{})
	p := s.awaitConn()
	expect[wire.NodeRegister](p)
	for range 2000 {
		text, _ := wire.EncodeFrame(wire.JobCancel{})
		if p.ws.Write(t.Context(), websocket.MessageText, text) != nil {
			break
		}
	}
	s.register(defaultAck)
}

func TestHeartbeatsDoNotWaitForPong(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	beats := make(chan struct{}, 16)
	s.mux.HandleFunc("/slow/ws/node", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols: []string{wire.Subprotocol}, OnPingReceived: func(context.Context, []byte) bool { return false },
		})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		ack := defaultAck
		ack.HeartbeatIntervalMS = 10
		text, _ := wire.EncodeFrame(ack)
		_ = conn.Write(r.Context(), websocket.MessageText, text)
		for {
			_, text, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if typ, _ := wire.TypeOf(text); typ == (wire.NodeHeartbeat{}).Type() {
				beats <- struct{}{}
			}
		}
	})
	startNode(t, testConfig(s.URL+"/slow"), node.FastTiming{PongTimeout: time.Hour})
	for range 3 {
		receive(t, beats, "a heartbeat")
	}
}
