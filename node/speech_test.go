package node_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// Speech follows its result in chunks, also when the result is resent.
func TestSpeechInFrames(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	speech := bytes.Repeat([]byte("0123456789"), 2*wire.SpeechChunk/10+1)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, respondWith(node.Result{TextTgt: "hola", Speech: speech}))
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	for range 2 {
		if got := expect[wire.JobResult](p); !got.TTS {
			t.Error("the result does not announce speech")
		}
		var all []byte
		for chunk := 0; ; chunk++ {
			m, _ := p.next()
			if m.typ != "" || m.header.Kind != wire.KindTTS || m.header.ActiveJob != key || m.header.Chunk != chunk || len(m.data) > wire.SpeechChunk {
				t.Fatalf("chunk %d is %q %+v with %d bytes", chunk, m.typ, m.header, len(m.data))
			}
			all = append(all, m.data...)
			if m.header.Last {
				break
			}
		}
		if !bytes.Equal(all, speech) {
			t.Errorf("%d bytes of speech, want %d", len(all), len(speech))
		}
		p.sync() // an assignment that comes while the speech is being sent does not repeat it
		p.assign("j-1")
	}
}

// The speech is uploaded before the result is sent, which has tts: true and announces no frames.
func TestSpeechUpload(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	uploads := make(chan string, 1)
	s.mux.HandleFunc("PUT /v1/audio/{job}/tts", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("job") == "lost" {
			w.WriteHeader(http.StatusGone)
			return
		}
		body, _ := io.ReadAll(r.Body)
		uploads <- string(body)
		w.WriteHeader(http.StatusNoContent)
	})
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, respondWith(node.Result{TextTgt: "hola", Speech: []byte("audio")}))
	p, _ := s.register(defaultAck)
	for _, id := range []string{"kept", "lost"} {
		p.send(wire.JobAssign{JobID: id, AttemptID: 1, TTSUpload: s.URL + "/v1/audio/" + id + "/tts?sig=secret"})
		expect[wire.JobAck](p)
		got := expect[wire.JobResult](p)
		if got.TTS {
			t.Error("the result announces frames of speech that was uploaded")
		}
		if uploaded := strings.Contains(string(got.Result), `"tts":true`); uploaded != (id == "kept") {
			t.Errorf("speech %s: result %s", id, got.Result)
		}
		if id == "kept" {
			select {
			case body := <-uploads:
				if body != "audio" {
					t.Errorf("uploaded %q", body)
				}
			default:
				t.Error("the result was sent before the speech")
			}
		}
	}
	p.send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: "mark"}})
	expect[wire.JobCancelled](p) // and no binary frame before it
}

func TestTooLargeSpeechIsOmitted(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, respondWith(node.Result{TextTgt: "hola", Speech: make([]byte, 64<<20+1)}))
	p, _ := s.register(defaultAck)
	p.assign("j-1")
	if got := expect[wire.JobResult](p); got.TTS {
		t.Error("the result announces speech")
	}
}

// The result and the first frame name the format, and opus is sent packet by packet.
func TestSpeechFormat(t *testing.T) {
	t.Parallel()
	wav := append([]byte("RIFF"), make([]byte, wire.SpeechChunk)...)
	for name, c := range map[string]struct {
		result node.Result
		want   wire.AudioFormat
		chunks [][]byte // nil: the result is sent without speech
	}{
		"not reported": {node.Result{Speech: []byte("ab")}, wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 16_000, Channels: 1}, [][]byte{[]byte("ab")}},
		"wav":          {node.Result{Speech: wav, SpeechFormat: wire.AudioFormat{Encoding: "wav", SampleRate: 44_100}}, wire.AudioFormat{Encoding: "wav", SampleRate: 44_100, Channels: 1}, [][]byte{wav[:wire.SpeechChunk], wav[wire.SpeechChunk:]}},
		"opus":         {node.Result{Speech: encodeOgg(t, testPackets...), SpeechFormat: wire.AudioFormat{Encoding: "opus"}}, opusFormat, testPackets},
		"no Ogg":       {node.Result{Speech: []byte("ab"), SpeechFormat: wire.AudioFormat{Encoding: "opus"}}, wire.AudioFormat{}, nil},
		"no format":    {node.Result{Speech: []byte("ab"), SpeechFormat: wire.AudioFormat{Encoding: "mp3"}}, wire.AudioFormat{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeScheduler(t)
			startNodeWith(t, testConfig(s.URL), node.FastTiming{}, respondWith(c.result))
			p, _ := s.register(defaultAck)
			p.assign("j-1")
			got := expect[wire.JobResult](p)
			if c.chunks == nil {
				if got.TTS || got.TTSAudio != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if !got.TTS || got.TTSAudio == nil || *got.TTSAudio != c.want {
				t.Errorf("the result has %+v", got.TTSAudio)
			}
			for i, want := range c.chunks {
				m, _ := p.next()
				if m.header.Chunk != i || m.header.Last != (i == len(c.chunks)-1) || !bytes.Equal(m.data, want) {
					t.Fatalf("%+v with %d bytes, want chunk %d with %d", m.header, len(m.data), i, len(want))
				}
				if (m.header.Audio != nil) != (i == 0) || i == 0 && *m.header.Audio != c.want {
					t.Errorf("chunk %d has %+v", i, m.header.Audio)
				}
			}
		})
	}
}

// HTTP headers name the format of uploaded speech.
func TestUploadedSpeechFormat(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	type upload struct{ ContentType, Audio, Body string }
	uploads := make(chan upload, 1)
	s.mux.HandleFunc("PUT /v1/audio/{job}/tts", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		uploads <- upload{r.Header.Get("Content-Type"), r.Header.Get(wire.AudioHeader), string(body)}
	})
	ogg := encodeOgg(t, testPackets...)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, respondWith(node.Result{Speech: ogg, SpeechFormat: wire.AudioFormat{Encoding: "opus"}}))
	p, _ := s.register(defaultAck)
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, TTSUpload: "/v1/audio/j-1/tts"})
	expect[wire.JobAck](p)
	if diff := cmp.Diff(upload{"audio/ogg; codecs=opus", "opus; rate=24000; channels=1", string(ogg)}, receive(t, uploads, "the speech")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := expect[wire.JobResult](p); got.TTS || !strings.Contains(string(got.Result), `"tts":true`) {
		t.Errorf("%+v", got)
	}
}
