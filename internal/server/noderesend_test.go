package server_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// chunk reads the next piece of a job's audio.
func (p *peer) chunk() (wire.BinaryHeader, []byte) {
	p.t.Helper()
	h, data, err := wire.ReadBinary(p.until("binary")["data"].([]byte))
	if err != nil {
		p.t.Fatal(err)
	}
	return h, data
}

// TestAudioIsSentAgainAfterReconnect: from the first chunk that the node does not report, each with the number and the bytes
// it had before.
func TestAudioIsSentAgainAfterReconnect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reported any // nil: the node says nothing of it
		from     int
		restart  bool // it registers anew instead of resuming
	}{
		"absent":                 {nil, 0, false},
		"none":                   {0, 0, false},
		"the first":              {1, 1, false},
		"all but the last":       {2, 2, false},
		"all":                    {3, 3, false},
		"more than there are":    {1 << 40, 3, false},
		"after a restart":        {1, 1, true},
		"absent after a restart": {nil, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, graceful)
			n, token := w.registered("n1")
			audio := make([]byte, 2*wire.MaxChunk+5000)
			for i := range audio {
				audio[i] = byte(i ^ i>>8 ^ 40)
			}
			job := w.speak(audio)
			if a := n.until("job_assign"); a["job_id"] != job {
				t.Fatalf("%v", a)
			}
			n.say(obj{"type": "job_ack", "job_id": job, "attempt_id": 1})
			if h, data := n.chunk(); h.Chunk != 0 || h.Last || !bytes.Equal(data, audio[:len(data)]) {
				t.Fatalf("%+v with %d bytes", h, len(data))
			}
			w.reaches(job, "ACKED")
			w.cut(n, "n1")

			again := obj{"job_id": job, "attempt_id": 1}.with(obj{"audio_chunks": c.reported})
			if c.restart {
				n = w.connect("/ws/node")
				n.say(obj{"type": "node_register", "node_id": "n1", "active": []obj{again}, "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2})
				n.until("node_register_ack")
			} else {
				n = w.resume("n1", token, []obj{again})
			}
			n.say(obj{"type": "job_ack", "job_id": job, "attempt_id": 1})
			n.say(obj{"type": "job_result", "job_id": "unknown", "attempt_id": 1, "result": obj{}}) // whose answer marks the end if nothing comes
			for next := c.from; next < 3; next++ {
				h, data := n.chunk()
				want := audio[next*wire.MaxChunk : min((next+1)*wire.MaxChunk, len(audio))]
				if h.JobID != job || h.AttemptID != 1 || h.Chunk != next || h.Last != (next == 2) || !bytes.Equal(data, want) {
					t.Fatalf("%+v with %d bytes, want chunk %d with %d", h, len(data), next, len(want))
				}
			}
			n.say(obj{"type": "job_result", "job_id": job, "attempt_id": 1, "result": obj{"text_tgt": "hola"}})
			for {
				m := n.next()
				if m["type"] == "binary" {
					t.Fatal("more audio came than was missing")
				}
				if m["type"] == "job_result_ack" && m["job_id"] == job {
					break
				}
			}
		})
	}
}

// speak says one utterance into a session of its own and returns its job.
func (w *world) speak(audio []byte) string {
	w.t.Helper()
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "es"}, "audio": obj{"encoding": "pcm_s16le", "sample_rate": 48000, "channels": 2}})
	s.until("session_started")
	for from := 0; from < len(audio); from += 64 << 10 {
		s.sound(audio[from:min(from+64<<10, len(audio))])
	}
	s.say(obj{"type": "audio_chunk", "is_final": true})
	return s.until("utterance_committed")["job_id"].(string)
}

// TestRegistrationSaysWhoseAudioIsNotHere: of what the node lists, and is not told to stop.
func TestRegistrationSaysWhoseAudioIsNotHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, graceful)
	n, token := w.registered("n1")
	here := w.speak(bytes.Repeat([]byte{1, 40}, 10_000))
	n.until("job_assign")
	n.say(obj{"type": "job_ack", "job_id": here, "attempt_id": 1})
	w.reaches(here, "ACKED")
	w.cut(n, "n1")
	n = w.connect("/ws/node")
	n.say(obj{
		"type": "node_register", "node_id": "n1", "resume_token": token, "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
		"active": []obj{{"job_id": here, "attempt_id": 1}, {"job_id": "j-elsewhere", "attempt_id": 2}},
	})
	ack := n.until("node_register_ack")
	if diff := cmp.Diff([]any{map[string]any{"job_id": "j-elsewhere", "attempt_id": 2.0}}, ack["no_audio"]); diff != "" {
		t.Errorf("no_audio (-want +got):\n%s\nof %v", diff, ack)
	}
}

// TestAudioOfOthersIsNotSent: a node that lists what it does not hold gets nothing of it.
func TestAudioOfOthersIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, graceful)
	n := w.socketNode("n1")
	job := w.speak(bytes.Repeat([]byte{1, 40}, 10_000))
	n.until("job_assign")
	n.say(obj{"type": "job_ack", "job_id": job, "attempt_id": 1})
	w.reaches(job, "ACKED")
	other := w.connect("/ws/node")
	other.say(obj{
		"type": "node_register", "node_id": "n2", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
		"active": []obj{{"job_id": job, "attempt_id": 1}, {"job_id": job, "attempt_id": 2}},
	})
	other.until("node_register_ack")
	other.say(obj{"type": "job_result", "job_id": job, "attempt_id": 1, "result": obj{"text_tgt": "hola"}})
	for m := other.next(); m["type"] != "job_result_ack"; m = other.next() {
		if m["type"] == "binary" {
			t.Fatal("a node was sent audio of a job it does not hold")
		}
	}
	bad := w.connect("/ws/node")
	bad.say(obj{
		"type": "node_register", "node_id": "n3", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
		"active": []obj{{"job_id": job, "attempt_id": 1, "audio_chunks": -1}},
	})
	if m := bad.until("error"); m["error"] != string(wire.InvalidRequest) || m["field"] != "active[0].audio_chunks" {
		t.Errorf("%v", m)
	}
}
