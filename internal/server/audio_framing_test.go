package server_test

import (
	"encoding/binary"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// numbered is a binary frame with its sequence number.
func numbered(seq uint64, data []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, seq), data...)
}

// Numbered frames are taken by their number: a repeated one is ignored, a gap or no number is an error that changes
// nothing, and what is committed is exactly what was sent.
func TestNumberedAudioFrames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.socketNode("gpu-1")
	p := w.connect("/ws/session")
	p.say(obj{"type": "session_start", "langs": []string{"en", "es"}, "audio": obj{"framing": "numbered"}})
	if m := p.until("session_started"); m["audio"].(map[string]any)["framing"] != "numbered" {
		t.Errorf("%v", m)
	}
	tone := make([]byte, 320)
	for i := range tone {
		tone[i] = byte(i)
	}
	p.sound(numbered(1, tone[:100]))
	p.sound(numbered(1, tone[100:200])) // repeated, and another: it is ignored
	p.sound(numbered(3, tone))
	if e := p.until("error"); e["field"] != "seq" || e["fatal"] == true {
		t.Errorf("a gap: %v", e)
	}
	p.sound([]byte("short"))
	if e := p.until("error"); e["field"] != "audio" || e["fatal"] == true {
		t.Errorf("no number: %v", e)
	}
	p.sound(numbered(0, tone))
	if e := p.until("error"); e["field"] != "seq" {
		t.Errorf("number 0: %v", e)
	}
	p.sound(numbered(2, tone[:200]))
	p.say(obj{"type": "audio_chunk", "seq": 3, "is_final": true})
	m := p.until("utterance_committed")
	if m["first_seq"] != 1.0 || m["last_seq"] != 2.0 {
		t.Errorf("%v", m)
	}
	if a := n.until("job_assign"); a["audio"].(map[string]any)["bytes"] != 300.0 {
		t.Errorf("%v", a)
	}
}

func TestBadFramingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for field, start := range map[string]obj{
		"audio.framing":     {"audio": obj{"framing": "odd"}},
		"segmentation.mode": {"segmentation": obj{"mode": "odd"}},
	} {
		p := w.connect("/ws/session")
		p.say(start.with(obj{"type": "session_start", "langs": []string{"en", "es"}}))
		if e := p.until("error"); e["field"] != field {
			t.Errorf("%s: %v", field, e)
		}
	}
}

// Audio that cannot be taken now closes with a code that means: resume later.
func TestRefusedAudioIsTakenLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.Scheduler.Sessions.AheadMS = 100 })
	p := w.connect("/ws/session")
	p.say(obj{"type": "session_start", "session_id": "room-1", "resume_token": "a token of my own", "langs": []string{"en", "es"}})
	p.until("session_started")
	second := make([]byte, 32_000)
	p.sound(second)
	p.sound(second)
	e := p.until("error")
	if e["error"] != string(wire.RateLimited) || e["fatal"] != true || e["retry_after_ms"] == nil {
		t.Errorf("%v", e)
	}
	_, _, err := p.ws.Read(t.Context())
	if code := websocket.CloseStatus(err); code != websocket.StatusCode(wire.CloseOverloaded) || !wire.CloseCode(code).Retry() {
		t.Errorf("closed with %d (%v)", code, err)
	}
	again := w.connect("/ws/session")
	again.say(obj{"type": "session_resume", "session_id": "room-1", "resume_token": "a token of my own", "last_seq": 0})
	again.until("session_resumed")
}

// A message that is not audio and comes too often is refused and does not end the connection.
func TestTooManyControlMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.connect("/ws/session")
	p.say(obj{"type": "session_start", "langs": []string{"en", "es"}})
	p.until("session_started")
	for range 300 {
		p.say(obj{"type": "session_update", "src_lang": "en"})
	}
	if e := p.until("error"); e["error"] != string(wire.RateLimited) || e["fatal"] == true || e["reply_to"] != "session_update" {
		t.Errorf("%v", e)
	}
	p.say(obj{"type": "session_end"})
	p.until("session_ended")
}
