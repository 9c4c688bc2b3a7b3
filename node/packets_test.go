package node_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// threePackets are packets of Opus.
var threePackets = [][]byte{{8, 1, 1, 1}, {8, 2}, append([]byte{8}, bytes.Repeat([]byte{3}, 700)...)}

func oggOf(t *testing.T, packets ...[]byte) []byte {
	t.Helper()
	file, err := oggopus.Encode(&oggopus.Stream{Channels: 1, SampleRate: 24_000, Packets: packets}, 9)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// taken is what a handler got of a job's audio.
type taken struct {
	packets [][]byte
	audio   []byte
	err     error
}

// takePackets is a handler that asks for the packets, twice, and for all of the audio.
func takePackets(into chan<- taken) node.Handler {
	return func(ctx context.Context, job *node.Job) (node.Result, error) {
		packets, err := job.Packets(ctx)
		if err == nil {
			_, err = job.Packets(ctx)
		}
		audio, audioErr := job.Audio(ctx)
		if err == nil {
			err = audioErr
		}
		into <- taken{packets, audio, err}
		return node.Result{}, err
	}
}

var opusAudio = wire.AudioFormat{Encoding: "opus", SampleRate: 24_000, Channels: 1}

// TestPackets: they are what came, in frames over two connections or in an Ogg stream, and Audio is such a stream.
func TestPackets(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	s.mux.HandleFunc("GET /v1/audio/a", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(oggOf(t, threePackets...)) })
	got := make(chan taken, 1)
	serve(t, basic(s.URL), node.Quick{}, takePackets(got))
	want := func(how string) {
		t.Helper()
		g := receive(t, got, "the packets")
		stream, err := oggopus.Decode(g.audio)
		if g.err != nil || err != nil {
			t.Fatalf("%s: %v, %v", how, g.err, err)
		}
		if !reflect.DeepEqual(threePackets, g.packets) || !reflect.DeepEqual(threePackets, stream.Packets) || stream.SampleRate != 24_000 {
			t.Errorf("%s: %d packets, and %d in the stream of %d Hz", how, len(g.packets), len(stream.Packets), stream.SampleRate)
		}
	}
	p, _ := s.registered(anyAck)
	key := wire.ActiveJob{JobID: "frames", AttemptID: 1}
	p.send(wire.JobAssign{JobID: key.JobID, AttemptID: 1, Audio: &wire.Audio{AudioFormat: opusAudio}})
	p.confirmed(key)
	p.audio(key, 0, string(threePackets[0]), false)
	p.audio(key, 1, string(threePackets[1]), false)
	p.settled()
	p.cut()
	p, r := s.registered(anyAck)
	if len(r.Active) != 1 || r.Active[0].AudioChunks != 2 {
		t.Errorf("reported %+v", r.Active)
	}
	p.audio(key, 1, string(threePackets[1]), false) // again
	p.audio(key, 2, string(threePackets[2]), false)
	p.audio(key, 3, "", true) // the last may be empty, and is no packet
	want("in frames")
	p.send(wire.JobAssign{JobID: "ogg", AttemptID: 1, Audio: &wire.Audio{AudioFormat: opusAudio, Container: "ogg", URL: "/v1/audio/a"}})
	want("in an Ogg stream")
}

// TestAudioThatHasNoPackets: that is a mistake of the handler's, and what is damaged goes to another node.
func TestAudioThatHasNoPackets(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	s.mux.HandleFunc("GET /v1/audio/{what}", func(w http.ResponseWriter, r *http.Request) {
		file := oggOf(t, threePackets...)
		switch r.PathValue("what") {
		case "cut":
			file = file[:len(file)-1]
		case "other":
			file = []byte("RIFF and so on")
		case "empty":
			file = nil
		}
		_, _ = w.Write(file)
	})
	got := make(chan taken, 1)
	serve(t, basic(s.URL), node.Quick{}, takePackets(got))
	p, _ := s.registered(anyAck)
	fails := func(assign wire.JobAssign, reason string, frames ...string) {
		t.Helper()
		assign.AttemptID = 1
		p.send(assign)
		expect[wire.JobAck](p)
		for i, data := range frames {
			p.audio(wire.ActiveJob{JobID: assign.JobID, AttemptID: 1}, i, data, i == len(frames)-1)
		}
		g := receive(t, got, "an error")
		if f := expect[wire.JobFail](p); f.Reason != reason || g.err == nil {
			t.Errorf("%s: %v, and the job fails with %s, want %s", assign.JobID, g.err, f.Reason, reason)
		}
		if reason != "AUDIO_LOST" && !errors.Is(g.err, node.ErrNoPackets) {
			t.Errorf("%s: %v", assign.JobID, g.err)
		}
	}
	for _, what := range []string{"cut", "other", "empty"} {
		fails(wire.JobAssign{JobID: what, Audio: &wire.Audio{AudioFormat: opusAudio, Container: "ogg", URL: "/v1/audio/" + what}}, "AUDIO_LOST")
	}
	fails(wire.JobAssign{JobID: "joined", Audio: &wire.Audio{AudioFormat: opusAudio}}, "AUDIO_LOST", strings.Repeat("x", oggopus.MaxPacket+1))
	fails(wire.JobAssign{JobID: "none", Audio: &wire.Audio{AudioFormat: opusAudio}}, "AUDIO_LOST", "")
	fails(wire.JobAssign{JobID: "pcm", Audio: &wire.Audio{}}, "NODE_FAILED", "abcd")
}

// TestTooManyPackets: a scheduler cannot fill the node's memory with the ends of packets.
func TestTooManyPackets(t *testing.T) {
	t.Parallel()
	if err := node.AddPackets(oggopus.MaxPackets); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
	if err := node.AddPackets(oggopus.MaxPackets + 1); err == nil {
		t.Error("one more than there may be")
	}
}

// TestFormatOfSpeech: the result and the first frame name it, and Opus goes packet by packet.
func TestFormatOfSpeech(t *testing.T) {
	t.Parallel()
	wav := append([]byte("RIFF"), make([]byte, wire.MaxChunk)...)
	for name, c := range map[string]struct {
		result node.Result
		want   wire.AudioFormat
		chunks [][]byte // nil: the result goes without its speech
	}{
		"not said":  {node.Result{Speech: []byte("ab")}, wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 16_000, Channels: 1}, [][]byte{[]byte("ab")}},
		"wav":       {node.Result{Speech: wav, SpeechFormat: wire.AudioFormat{Encoding: "wav", SampleRate: 44_100}}, wire.AudioFormat{Encoding: "wav", SampleRate: 44_100, Channels: 1}, [][]byte{wav[:wire.MaxChunk], wav[wire.MaxChunk:]}},
		"opus":      {node.Result{Speech: oggOf(t, threePackets...), SpeechFormat: wire.AudioFormat{Encoding: "opus"}}, opusAudio, threePackets},
		"no Ogg":    {node.Result{Speech: []byte("ab"), SpeechFormat: wire.AudioFormat{Encoding: "opus"}}, wire.AudioFormat{}, nil},
		"no format": {node.Result{Speech: []byte("ab"), SpeechFormat: wire.AudioFormat{Encoding: "mp3"}}, wire.AudioFormat{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t)
			serve(t, basic(s.URL), node.Quick{}, returning(c.result))
			p, _ := s.registered(anyAck)
			p.assign("j-1")
			got := expect[wire.JobResult](p)
			if c.chunks == nil {
				if got.TTS || got.TTSAudio != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if !got.TTS || got.TTSAudio == nil || *got.TTSAudio != c.want {
				t.Errorf("the result says %+v", got.TTSAudio)
			}
			for i, want := range c.chunks {
				m, _ := p.next()
				if m.header.Chunk != i || m.header.Last != (i == len(c.chunks)-1) || !bytes.Equal(m.data, want) {
					t.Fatalf("%+v with %d bytes, want chunk %d with %d", m.header, len(m.data), i, len(want))
				}
				if (m.header.Audio != nil) != (i == 0) || i == 0 && *m.header.Audio != c.want {
					t.Errorf("chunk %d says %+v", i, m.header.Audio)
				}
			}
		})
	}
}

// TestFormatOfUploadedSpeech: its headers name it.
func TestFormatOfUploadedSpeech(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	type upload struct{ ContentType, Audio, Body string }
	uploads := make(chan upload, 1)
	s.mux.HandleFunc("PUT /v1/audio/{job}/tts", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		uploads <- upload{r.Header.Get("Content-Type"), r.Header.Get(wire.AudioHeader), string(body)}
	})
	ogg := oggOf(t, threePackets...)
	serve(t, basic(s.URL), node.Quick{}, returning(node.Result{Speech: ogg, SpeechFormat: wire.AudioFormat{Encoding: "opus"}}))
	p, _ := s.registered(anyAck)
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, TTSUpload: "/v1/audio/j-1/tts"})
	expect[wire.JobAck](p)
	if diff := cmp.Diff(upload{"audio/ogg; codecs=opus", "opus; rate=24000; channels=1", string(ogg)}, receive(t, uploads, "the speech")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := expect[wire.JobResult](p); got.TTS || !strings.Contains(string(got.Result), `"tts":true`) {
		t.Errorf("%+v", got)
	}
}
