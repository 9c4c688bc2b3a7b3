package server_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// fetchURL requests a URL that came with a job.
func (ts *testScheduler) fetchURL(method, address string, body []byte) response {
	ts.t.Helper()
	return ts.fetchURLWith(method, address, body, nil)
}

// fetchURLWith is fetchURL with headers.
func (ts *testScheduler) fetchURLWith(method, address string, body []byte, headers map[string]string) response {
	ts.t.Helper()
	req, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		ts.t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		ts.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		ts.t.Fatal(err)
	}
	return response{t: ts.t, label: method + " audio", status: resp.StatusCode, header: resp.Header, body: got}
}

// TestAudioURLsForCallbackNodes: a node without a connection fetches the audio of a job, and uploads its speech, at signed URLs.
func TestAudioURLsForCallbackNodes(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"nmt_pairs": [][]string{{"en", "zh"}}})
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "zh"}, "tts": true})
	s.readUntil("session_started")
	audio := bytes.Repeat([]byte{1, 40}, 1600)
	s.sendBinary(audio)
	s.send(object{"type": "audio_chunk", "is_final": true})
	d, _ := ts.nextDelivery()

	got := ts.fetchURL("GET", d.AudioRef, nil)
	if got.status != http.StatusOK || !bytes.Equal(got.body, audio) || got.header.Get("X-Lingua-Audio") != "pcm_s16le; rate=16000; channels=1" {
		t.Fatalf("%d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	forged := strings.Replace(d.AudioRef, d.JobID, "job-other", 1)
	for name, address := range map[string]string{
		"of another job": forged, "without its token": strings.Split(d.AudioRef, "?")[0], "for an upload": strings.Replace(d.TTSUpload, "/tts", "", 1),
		"changed": d.AudioRef + "x",
	} {
		if a := ts.fetchURL("GET", address, nil); a.status != http.StatusUnauthorized {
			t.Errorf("a URL %s: %d", name, a.status)
		}
	}
	n.ack(d, nil).expectOK()
	for range 2 { // the answer to the first may be lost
		if a := ts.fetchURL("PUT", d.TTSUpload, []byte("spoken")); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	n.done(d, object{"result": object{"text_tgt": "好", "tts": true}}).expectOK()
	if m := s.readUntil("result"); m["text_tgt"] != "好" || m["tts"] != "follows" {
		t.Errorf("%v", m)
	}
	h, speech, err := wire.ReadBinary(s.readUntil("binary")["data"].([]byte))
	if err != nil || string(speech) != "spoken" || !h.Last || h.JobID != d.JobID {
		t.Errorf("%+v %q %v", h, speech, err)
	}
	if a := ts.fetchURL("GET", d.AudioRef, nil); a.status != http.StatusNotFound {
		t.Errorf("the audio of a job that has ended: %d", a.status)
	}
	if a := ts.fetchURL("PUT", d.TTSUpload, []byte("once more!")); a.status != http.StatusNotFound {
		t.Errorf("speech of a job that has ended: %d", a.status)
	}
	if strings.Contains(ts.log.String(), "token=") {
		t.Error("a signed URL was logged")
	}
}

// numberedFrame is a binary frame with its sequence number.
func numberedFrame(seq uint64, data []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, seq), data...)
}

// TestNumberedAudioFrames: a repeated number, a gap or a missing number is an error that changes nothing, and the utterance has exactly the
// frames that were accepted.
func TestNumberedAudioFrames(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("gpu-1")
	c := ts.connect("/ws/session")
	c.send(object{"type": "session_start", "langs": []string{"en", "es"}, "audio": object{"framing": "numbered"}})
	if m := c.readUntil("session_started"); m["audio"].(map[string]any)["framing"] != "numbered" {
		t.Errorf("%v", m)
	}
	tone := make([]byte, 320)
	for i := range tone {
		tone[i] = byte(i)
	}
	c.sendBinary(numberedFrame(1, tone[:100]))
	c.sendBinary(numberedFrame(1, tone[100:200]))
	if e := c.readUntil("error"); e["field"] != "seq" || e["fatal"] == true {
		t.Errorf("a repeated number: %v", e)
	}
	c.sendBinary(numberedFrame(3, tone))
	if e := c.readUntil("error"); e["field"] != "seq" || e["fatal"] == true {
		t.Errorf("a gap: %v", e)
	}
	c.sendBinary([]byte("short"))
	if e := c.readUntil("error"); e["field"] != "audio" || e["fatal"] == true {
		t.Errorf("no number: %v", e)
	}
	c.sendBinary(numberedFrame(0, tone))
	if e := c.readUntil("error"); e["field"] != "seq" {
		t.Errorf("number 0: %v", e)
	}
	c.sendBinary(numberedFrame(2, tone[:200]))
	c.send(object{"type": "audio_chunk", "seq": 3, "is_final": true})
	m := c.readUntil("utterance_committed")
	if m["first_seq"] != 1.0 || m["last_seq"] != 2.0 {
		t.Errorf("%v", m)
	}
	if a := n.readUntil("job_assign"); a["audio"].(map[string]any)["bytes"] != 300.0 {
		t.Errorf("%v", a)
	}
}

// TestInvalidFramingIsRefused: a session_start with an unknown framing or segmentation mode is refused.
func TestInvalidFramingIsRefused(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for field, start := range map[string]object{
		"audio.framing":     {"audio": object{"framing": "odd"}},
		"segmentation.mode": {"segmentation": object{"mode": "odd"}},
	} {
		c := ts.connect("/ws/session")
		c.send(start.with(object{"type": "session_start", "langs": []string{"en", "es"}}))
		if e := c.readUntil("error"); e["field"] != field {
			t.Errorf("%s: %v", field, e)
		}
	}
}

// TestRefusedAudioClosesForResume: audio that cannot be accepted now closes the connection with a code after which the client
// resumes.
func TestRefusedAudioClosesForResume(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) { c.Scheduler.Sessions.AheadMS = 100 })
	c := ts.connect("/ws/session")
	c.send(object{"type": "session_start", "session_id": "room-1", "resume_token": "a token of my own", "langs": []string{"en", "es"}})
	c.readUntil("session_started")
	second := make([]byte, 32_000)
	c.sendBinary(second)
	c.sendBinary(second)
	e := c.readUntil("error")
	if e["error"] != string(wire.RateLimited) || e["fatal"] != true || e["retry_after_ms"] == nil {
		t.Errorf("%v", e)
	}
	_, _, err := c.ws.Read(t.Context())
	if code := websocket.CloseStatus(err); code != websocket.StatusCode(wire.CloseOverloaded) || !wire.CloseCode(code).Retry() {
		t.Errorf("closed with %d (%v)", code, err)
	}
	again := ts.connect("/ws/session")
	again.send(object{"type": "session_resume", "session_id": "room-1", "resume_token": "a token of my own", "last_seq": 0})
	again.readUntil("session_resumed")
}

// TestControlMessageRateLimit: control messages that come too often are refused without closing the connection.
func TestControlMessageRateLimit(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	c := ts.connect("/ws/session")
	c.send(object{"type": "session_start", "langs": []string{"en", "es"}})
	c.readUntil("session_started")
	const burst = 100 // each message is answered with an error, so that messages and answers stay few
	for refused := false; !refused; {
		for range burst {
			c.send(object{"type": "cancel", "utterance_id": "unknown"})
		}
		for range burst {
			e := c.readUntil("error")
			if e["error"] == string(wire.RateLimited) {
				refused = true
			} else if e["error"] != string(wire.NotFound) {
				t.Fatalf("%v", e)
			}
			if e["fatal"] == true || e["reply_to"] != "cancel" {
				t.Errorf("%v", e)
			}
		}
	}
	c.send(object{"type": "session_end"})
	c.readUntil("session_ended")
}

// opusPackets makes distinct Opus packets of 20 ms, of varying size.
func opusPackets(n int) [][]byte {
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = append([]byte{1 << 3}, bytes.Repeat([]byte{byte(i)}, 40+i*37%400)...)
		packets[i] = append(packets[i], byte(i>>8))
	}
	return packets
}

// dispatchOpus sends an utterance of Opus packets in a session of its own and returns its job.
func dispatchOpus(ts *testScheduler, packets [][]byte, more object) (session *wsClient, job string) {
	ts.t.Helper()
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}, "audio": object{"encoding": "opus", "sample_rate": 48000}}.with(more))
	s.readUntil("session_started")
	for _, packet := range packets {
		s.sendBinary(packet)
	}
	s.send(object{"type": "audio_chunk", "is_final": true})
	return s, s.readUntil("utterance_committed")["job_id"].(string)
}

// TestOpusPacketsInFrames: a node receives every packet in a frame of its own.
func TestOpusPacketsInFrames(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("n1")
	packets := opusPackets(150)
	_, job := dispatchOpus(ts, packets, nil)
	a := n.readUntil("job_assign")
	audio := a["audio"].(map[string]any)
	if a["job_id"] != job || audio["encoding"] != "opus" || audio["sample_rate"] != 48000. || audio["channels"] != 1. || audio["container"] != nil {
		t.Errorf("%v", a)
	}
	for i, packet := range packets {
		h, data := n.readChunk()
		if h.JobID != job || h.Chunk != i || h.Last != (i == len(packets)-1) || !bytes.Equal(data, packet) {
			t.Fatalf("%+v with %d bytes, want packet %d with %d", h, len(data), i, len(packet))
		}
	}
}

// TestOpusPacketsAreResentAfterReconnect: chunks are packets, and the number that the node reports is where the audio continues.
func TestOpusPacketsAreResentAfterReconnect(t *testing.T) {
	t.Parallel()
	packets := opusPackets(60)
	for _, reported := range []int{0, 1, 37, 59, 60, 61} {
		t.Run(strconv.Itoa(reported), func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t, longGrace)
			n, token := ts.connectNodeWithToken("n1")
			_, job := dispatchOpus(ts, packets, nil)
			n.readUntil("job_assign")
			n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
			n.readChunk()
			ts.awaitJobState(job, "ACKED")
			ts.disconnectNode(n, "n1")
			n = ts.resumeNode("n1", token, []object{{"job_id": job, "attempt_id": 1, "audio_chunks": reported}})
			for i := reported; i < len(packets); i++ {
				if h, data := n.readChunk(); h.Chunk != i || h.Last != (i == len(packets)-1) || !bytes.Equal(data, packets[i]) {
					t.Fatalf("%+v with %d bytes, want packet %d with %d", h, len(data), i, len(packets[i]))
				}
			}
			n.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": object{"text_tgt": "hola"}})
			for m := n.read(); m["type"] != "job_result_ack"; m = n.read() {
				if m["type"] == "binary" {
					t.Fatal("more audio was resent than was missing")
				}
			}
		})
	}
}

// TestOpusOverHTTP: a node that fetches the audio gets an Ogg stream of the same packets.
func TestOpusOverHTTP(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"nmt_pairs": [][]string{{"en", "zh"}}})
	packets := opusPackets(150)
	dispatchOpus(ts, packets, object{"langs": []string{"en", "zh"}, "audio": object{"encoding": "opus", "sample_rate": 24000, "channels": 2}})
	d, _ := ts.nextDelivery()
	got := ts.fetchURL("GET", d.AudioRef, nil)
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
	if again := ts.fetchURL("GET", d.AudioRef, nil); !bytes.Equal(again.body, got.body) {
		t.Error("a second fetch returned another file")
	}
}

// TestContentTypeOfAudio: the Content-Type of fetched audio matches its encoding.
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
			ts := startScheduler(t)
			ts.registerNode("n1", object{"nmt_pairs": [][]string{{"en", "zh"}}})
			s := ts.connect("/ws/session")
			s.send(object{"type": "session_start", "langs": []string{"en", "zh"}, "audio": object{"encoding": encoding, "sample_rate": 24000, "channels": 2}})
			s.readUntil("session_started")
			s.sendBinary(c.audio)
			s.send(object{"type": "audio_chunk", "is_final": true})
			d, _ := ts.nextDelivery()
			got := ts.fetchURL("GET", d.AudioRef, nil)
			if got.header.Get("Content-Type") != c.want || !bytes.Equal(got.body, c.audio) || d.Audio.Container != "" || d.Audio.Bytes != int64(len(c.audio)) {
				t.Errorf("%v, %d bytes, %+v", got.header, len(got.body), d.Audio)
			}
		})
	}
}

// TestInvalidOpusPacketIsRefused: a frame that is no Opus packet is refused, and gets no sequence number.
func TestInvalidOpusPacketIsRefused(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}, "audio": object{"encoding": "opus", "sample_rate": 48000}})
	s.readUntil("session_started")
	for name, frame := range map[string][]byte{
		"an Ogg page": []byte("OggS\x00\x02 and so on"), "no count of frames": {3}, "too large": make([]byte, oggopus.MaxPacket+1),
	} {
		s.sendBinary(frame)
		if m := s.readUntil("error"); m["error"] != string(wire.InvalidRequest) || m["field"] != "audio" {
			t.Errorf("%s: %v", name, m)
		}
	}
	s.sendBinary(opusPackets(1)[0])
	s.send(object{"type": "audio_chunk", "is_final": true})
	if m := s.readUntil("utterance_committed"); m["first_seq"] != 1. || m["last_seq"] != 1. {
		t.Errorf("%v", m)
	}
}

// TestAudioURLOfARemovedNode: the URLs that came with a job are of no use to a node that was removed, also while no other node has the job.
func TestAudioURLOfARemovedNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("only", nil)
	ts.startSpeechSession("en", "zh")
	a, _ := ts.nextDelivery()
	n.ack(a, nil).expectOK()
	if got := ts.fetchURL("GET", a.AudioRef, nil); got.status != http.StatusOK {
		t.Fatalf("the audio for its node: %d %s", got.status, got.body)
	}
	var removed wire.NodeRemoved
	ts.request("DELETE", "/v1/nodes/only", "", nil).decode(&removed)
	for method, address := range map[string]string{"GET": a.AudioRef, "PUT": a.TTSUpload} {
		if got := ts.fetchURL(method, address, []byte("forged")); got.status != http.StatusUnauthorized {
			t.Errorf("%s with the URL of a removed node: %d %s", method, got.status, got.body)
		}
	}
}

// TestAudioURLIsForOneNode: the URLs that came with a job are of no use to a node that has given the job back, although the next node has
// the same attempt.
func TestAudioURLIsForOneNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	busy := ts.registerNode("busy", nil)
	busy.setAnswer(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTooManyRequests) })
	s := ts.startSpeechSession("en", "zh")
	first, _ := ts.nextDelivery()
	ts.registerNode("next", nil)
	second, n := ts.nextDelivery()
	for second.NodeID == "busy" {
		second, n = ts.nextDelivery()
	}
	if first.AttemptID != second.AttemptID {
		t.Fatalf("attempt %d after a refusal, which was %d", second.AttemptID, first.AttemptID)
	}
	for method, address := range map[string]string{"GET": first.AudioRef, "PUT": first.TTSUpload} {
		if a := ts.fetchURL(method, address, []byte("forged")); a.status != http.StatusUnauthorized {
			t.Errorf("%s with the URL of the node before: %d %s", method, a.status, a.body)
		}
	}
	n.ack(second, nil).expectOK()
	if a := ts.fetchURL("GET", second.AudioRef, nil); a.status != http.StatusOK {
		t.Errorf("the audio for its node: %d %s", a.status, a.body)
	}
	if a := ts.fetchURL("PUT", second.TTSUpload, []byte("spoken")); a.status != http.StatusOK {
		t.Errorf("the speech of its node: %d %s", a.status, a.body)
	}
	n.done(second, object{"result": object{"text_tgt": "好", "tts": true}}).expectOK()
	if _, chunks := s.readSpeech(); len(chunks) != 1 || string(chunks[0]) != "spoken" {
		t.Errorf("%q", chunks)
	}
}
