package server_test

import (
	"bytes"
	"net/http"
	"reflect"
	"strconv"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// opusPackets makes Opus packets of 20 ms, no two of them alike, of sizes that vary.
func opusPackets(n int) [][]byte {
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = append([]byte{1 << 3}, bytes.Repeat([]byte{byte(i)}, 40+i*37%400)...)
		packets[i] = append(packets[i], byte(i>>8))
	}
	return packets
}

// speakOpus sends an utterance of Opus packets in a session of its own and returns its job.
func (w *world) speakOpus(packets [][]byte, more obj) (session *peer, job string) {
	w.t.Helper()
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "es"}, "audio": obj{"encoding": "opus", "sample_rate": 48000}}.with(more))
	s.until("session_started")
	for _, packet := range packets {
		s.sound(packet)
	}
	s.say(obj{"type": "audio_chunk", "is_final": true})
	return s, s.until("utterance_committed")["job_id"].(string)
}

// TestOpusPacketsInFrames: a node gets every packet in a frame of its own, and learns that they are packets.
func TestOpusPacketsInFrames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.socketNode("n1")
	packets := opusPackets(150)
	_, job := w.speakOpus(packets, nil)
	a := n.until("job_assign")
	audio := a["audio"].(map[string]any)
	if a["job_id"] != job || audio["encoding"] != "opus" || audio["sample_rate"] != 48000. || audio["channels"] != 1. || audio["container"] != nil {
		t.Errorf("%v", a)
	}
	for i, packet := range packets {
		h, data := n.chunk()
		if h.JobID != job || h.Chunk != i || h.Last != (i == len(packets)-1) || !bytes.Equal(data, packet) {
			t.Fatalf("%+v with %d bytes, want packet %d with %d", h, len(data), i, len(packet))
		}
	}
}

// TestOpusPacketsAreSentAgainAfterReconnect: chunks are packets, so the node's count of them says where to go on.
func TestOpusPacketsAreSentAgainAfterReconnect(t *testing.T) {
	t.Parallel()
	packets := opusPackets(60)
	for _, reported := range []int{0, 1, 37, 59, 60, 61} {
		t.Run(strconv.Itoa(reported), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, graceful)
			n, token := w.registered("n1")
			_, job := w.speakOpus(packets, nil)
			n.until("job_assign")
			n.say(obj{"type": "job_ack", "job_id": job, "attempt_id": 1})
			n.chunk()
			w.reaches(job, "ACKED")
			w.cut(n, "n1")
			n = w.resume("n1", token, []obj{{"job_id": job, "attempt_id": 1, "audio_chunks": reported}})
			for i := reported; i < len(packets); i++ {
				if h, data := n.chunk(); h.Chunk != i || h.Last != (i == len(packets)-1) || !bytes.Equal(data, packets[i]) {
					t.Fatalf("%+v with %d bytes, want packet %d with %d", h, len(data), i, len(packets[i]))
				}
			}
			n.say(obj{"type": "job_result", "job_id": job, "attempt_id": 1, "result": obj{"text_tgt": "hola"}})
			for m := n.next(); m["type"] != "job_result_ack"; m = n.next() {
				if m["type"] == "binary" {
					t.Fatal("more audio came than was missing")
				}
			}
		})
	}
}

// TestOpusOverHTTP: a node that fetches the audio gets an Ogg stream of the same packets.
func TestOpusOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("n1", obj{"nmt_pairs": [][]string{{"en", "zh"}}})
	packets := opusPackets(150)
	w.speakOpus(packets, obj{"langs": []string{"en", "zh"}, "audio": obj{"encoding": "opus", "sample_rate": 24000, "channels": 2}})
	d, _ := w.next()
	got := w.fetch("GET", d.AudioRef, nil)
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "audio/ogg; codecs=opus" || got.header.Get(wire.AudioHeader) != "opus; rate=24000; channels=2" {
		t.Fatalf("%d, %v", got.status, got.header)
	}
	s, err := oggopus.Decode(got.body)
	if err != nil {
		t.Fatal(err)
	}
	if s.Channels != 2 || s.SampleRate != 24000 || !reflect.DeepEqual(s.Packets, packets) {
		t.Errorf("%d channels, %d Hz, %d packets", s.Channels, s.SampleRate, len(s.Packets))
	}
	if d.Audio == nil || d.Audio.Container != wire.ContainerOgg || d.Audio.Bytes != int64(len(got.body)) || d.Audio.DurationMS != 3000 {
		t.Errorf("%+v", d.Audio)
	}
	if again := w.fetch("GET", d.AudioRef, nil); !bytes.Equal(again.body, got.body) {
		t.Error("fetched again it is another file")
	}
}

// TestContentTypeOfAudio fits what is fetched.
func TestContentTypeOfAudio(t *testing.T) {
	t.Parallel()
	for encoding, c := range map[string]struct {
		audio []byte
		want  string
	}{
		"pcm_s16le": {bytes.Repeat([]byte{1, 40}, 1600), "audio/pcm; rate=24000; channels=2"},
		"wav":       {append([]byte("RIFF"), make([]byte, 400)...), "audio/wav"},
	} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.node("n1", obj{"nmt_pairs": [][]string{{"en", "zh"}}})
			s := w.connect("/ws/session")
			s.say(obj{"type": "session_start", "langs": []string{"en", "zh"}, "audio": obj{"encoding": encoding, "sample_rate": 24000, "channels": 2}})
			s.until("session_started")
			s.sound(c.audio)
			s.say(obj{"type": "audio_chunk", "is_final": true})
			d, _ := w.next()
			got := w.fetch("GET", d.AudioRef, nil)
			if got.header.Get("Content-Type") != c.want || !bytes.Equal(got.body, c.audio) || d.Audio.Container != "" || d.Audio.Bytes != int64(len(c.audio)) {
				t.Errorf("%v, %d bytes, %+v", got.header, len(got.body), d.Audio)
			}
		})
	}
}

// TestAudioThatIsNoOpusPacket is refused by name, and counts for nothing.
func TestAudioThatIsNoOpusPacket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "es"}, "audio": obj{"encoding": "opus", "sample_rate": 48000}})
	s.until("session_started")
	for name, frame := range map[string][]byte{
		"an Ogg page": []byte("OggS\x00\x02 and so on"), "no count of frames": {3}, "too large": make([]byte, oggopus.MaxPacket+1),
	} {
		s.sound(frame)
		if m := s.until("error"); m["error"] != string(wire.InvalidRequest) || m["field"] != "audio" {
			t.Errorf("%s: %v", name, m)
		}
	}
	s.sound(opusPackets(1)[0])
	s.say(obj{"type": "audio_chunk", "is_final": true})
	if m := s.until("utterance_committed"); m["first_seq"] != 1. || m["last_seq"] != 1. {
		t.Errorf("%v", m)
	}
}
