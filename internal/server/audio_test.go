package server_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// fetch asks for an address that came with a job.
func (w *world) fetch(method, address string, body []byte) answer {
	w.t.Helper()
	return w.fetchWith(method, address, body, nil)
}

// fetchWith is fetch with headers.
func (w *world) fetchWith(method, address string, body []byte, headers map[string]string) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{t: w.t, asked: method + " audio", status: resp.StatusCode, header: resp.Header, body: got}
}

// TestSoundForNodesThatAreNotConnected: they fetch it, and bring what is to be said.
func TestSoundForNodesThatAreNotConnected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"nmt_pairs": [][]string{{"en", "zh"}}})
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "zh"}, "tts": true})
	s.until("session_started")
	sound := bytes.Repeat([]byte{1, 40}, 1600)
	s.sound(sound)
	s.say(obj{"type": "audio_chunk", "is_final": true})
	d, _ := w.next()

	got := w.fetch("GET", d.AudioRef, nil)
	if got.status != http.StatusOK || !bytes.Equal(got.body, sound) || got.header.Get("X-Lingua-Audio") != "pcm_s16le; rate=16000; channels=1" {
		t.Fatalf("%d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	forged := strings.Replace(d.AudioRef, d.JobID, "job-other", 1)
	for name, address := range map[string]string{
		"of another job": forged, "without its token": strings.Split(d.AudioRef, "?")[0], "for the other way": strings.Replace(d.TTSUpload, "/tts", "", 1),
		"changed": d.AudioRef + "x",
	} {
		if a := w.fetch("GET", address, nil); a.status != http.StatusUnauthorized {
			t.Errorf("an address %s: %d", name, a.status)
		}
	}
	n.ack(d, nil).ok()
	for range 2 { // the answer to the first may be lost
		if a := w.fetch("PUT", d.TTSUpload, []byte("spoken")); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	n.done(d, obj{"result": obj{"text_tgt": "好", "tts": true}}).ok()
	if m := s.until("result"); m["text_tgt"] != "好" || m["tts"] != "follows" {
		t.Errorf("%v", m)
	}
	h, speech, err := wire.ReadBinary(s.until("binary")["data"].([]byte))
	if err != nil || string(speech) != "spoken" || !h.Last || h.JobID != d.JobID {
		t.Errorf("%+v %q %v", h, speech, err)
	}
	if a := w.fetch("GET", d.AudioRef, nil); a.status != http.StatusNotFound {
		t.Errorf("the sound of a job that has ended: %d", a.status)
	}
	if a := w.fetch("PUT", d.TTSUpload, []byte("once more!")); a.status != http.StatusNotFound {
		t.Errorf("speech that nobody waits for: %d", a.status)
	}
	if strings.Contains(w.log.String(), "token=") {
		t.Error("an address was logged")
	}
}
