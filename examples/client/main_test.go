package main

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// A complete client needs fewer than thirty lines.
func TestExampleIsShort(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(body, []byte("\n")); n >= 30 {
		t.Errorf("main.go has %d lines", n)
	}
}

// The program sends a file to a fake scheduler and prints the result.
func TestClientPrintsResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, file := filepath.Join(dir, "client"), filepath.Join(dir, "morning.wav")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	audio := bytes.Repeat([]byte{1, 2}, 8000)
	if err := os.WriteFile(file, wav(8000, audio), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &fakeScheduler{t: t}
	server := httptest.NewServer(s)
	out, err := exec.CommandContext(t.Context(), program, server.URL, file, "en", "es").CombinedOutput()
	server.Close()
	if want := "good morning → buenos días\n"; err != nil || string(out) != want {
		t.Errorf("printed %q (%v), want %q", out, err, want)
	}
	if s.start.Audio.SampleRate != 8000 || s.start.Langs[0] != "en" || s.start.Langs[1] != "es" {
		t.Errorf("started with %+v", s.start)
	}
	if !bytes.Equal(s.audio, audio) {
		t.Errorf("received %d bytes of audio, want the %d bytes of the file", len(s.audio), len(audio))
	}
}

// wav returns a WAV file with the audio.
func wav(rate int, audio []byte) []byte {
	le := binary.LittleEndian
	b := append([]byte("RIFF"), le.AppendUint32(nil, uint32(36+len(audio)))...)
	b = le.AppendUint32(append(b, "WAVEfmt "...), 16)
	b = le.AppendUint16(le.AppendUint16(b, 1), 1) // PCM, mono
	b = le.AppendUint32(le.AppendUint32(b, uint32(rate)), uint32(2*rate))
	b = le.AppendUint16(le.AppendUint16(b, 2), 16)
	return append(le.AppendUint32(append(b, "data"...), uint32(len(audio))), audio...)
}

// fakeScheduler answers all audio with the same translation.
type fakeScheduler struct {
	t     *testing.T
	start wire.SessionStart
	audio []byte
}

// ServeHTTP implements http.Handler.
func (s *fakeScheduler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		s.t.Error(err)
		return
	}
	defer conn.CloseNow()
	send := func(f wire.Frame) {
		text, err := wire.EncodeFrame(f)
		if err == nil {
			err = conn.Write(r.Context(), websocket.MessageText, text)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	for {
		typ, body, err := conn.Read(r.Context())
		if err != nil {
			s.t.Error(err)
			return
		}
		if typ == websocket.MessageBinary {
			s.audio = append(s.audio, body[8:]...) // after its sequence number
			continue
		}
		switch kind, _ := wire.TypeOf(body); kind {
		case s.start.Type():
			if err := wire.Decode(body, &s.start); err != nil {
				s.t.Error(err)
			}
			send(wire.SessionStarted{SessionID: "s-1", Audio: s.start.Audio, Limits: wire.SessionLimits{BufferedMS: 5000}})
		case wire.SessionEnd{}.Type():
			send(wire.SessionResult{Seq: 1, TextSrc: "good morning", TextTgt: "buenos días"})
			send(wire.SessionEnded{SessionID: "s-1", Utterances: 1, Results: 1})
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return
		}
	}
}
