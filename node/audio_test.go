package node_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// Chunks are joined in order. A repeated chunk and one that is out of order are ignored.
func TestAudioInFrames(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, echoAudio)
	p, _ := s.register(defaultAck)
	assign := wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{Bytes: 6}}
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	p.send(assign)
	p.expectAck(key) // before its audio has arrived
	p.sendAudio(key, 0, "ab", false)
	p.sendAudio(key, 2, "zz", true) // out of order
	p.sendAudio(key, 0, "ab", false)
	p.sendAudio(wire.ActiveJob{JobID: "j-1", AttemptID: 2}, 1, "zz", true) // of another attempt

	// After a reconnect the same attempt is assigned again, and its audio is sent from the beginning.
	p.drop()
	p, _ = s.register(defaultAck)
	p.expectAck(key)
	p.send(assign)
	p.expectAck(key)
	p.sendAudio(key, 0, "ab", false)
	p.sendAudio(key, 1, "cdef", false)
	p.sendAudio(key, 2, "", true) // the last may be empty
	p.sendAudio(key, 3, "zz", true)
	expectEcho(t, p, "abcdef")
}

// A registration reports the received chunks, so that the scheduler sends the rest, also for a job whose handler has
// returned.
func TestAudioChunksAreReported(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, echoAudio)
	p, _ := s.register(defaultAck)
	half, whole := wire.ActiveJob{JobID: "j-half", AttemptID: 1}, wire.ActiveJob{JobID: "j-whole", AttemptID: 1}
	for _, key := range []wire.ActiveJob{half, whole} {
		p.send(wire.JobAssign{JobID: key.JobID, AttemptID: 1, Audio: &wire.Audio{Bytes: 6}})
		p.expectAck(key)
	}
	p.sendAudio(whole, 0, "abc", false)
	p.sendAudio(whole, 1, "def", true)
	expectEcho(t, p, "abcdef") // the result is not acknowledged
	p.sendAudio(half, 0, "ab", false)
	p.sendAudio(half, 2, "zz", false) // after a gap
	p.sync()
	p.drop()
	p, r := s.register(defaultAck)
	got := make(map[wire.ActiveJob]int)
	for _, a := range r.Active {
		got[a.ActiveJob] = a.AudioChunks
	}
	if diff := cmp.Diff(map[wire.ActiveJob]int{half: 1, whole: 2}, got); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	p.sendAudio(half, 1, "cdef", true)
	for { // the acknowledgement and the result of the other job are repeated
		m, ok := p.next()
		if !ok {
			t.Fatal("no result after the rest of the audio")
		}
		if m.typ == (wire.JobResult{}).Type() && strings.Contains(string(m.text), half.JobID) {
			if !strings.Contains(string(m.text), `{"text_src":"abcdef","text_tgt":"abcdef"}`) {
				t.Errorf("result %s", m.text)
			}
			return
		}
	}
}

// The job moves to another node and does not wait for its deadline.
func TestMissingAudioFailsJob(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{AudioTimeout: 50 * time.Millisecond}, echoAudio)
	p, _ := s.register(defaultAck)
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{}})
	p.expectAck(key)
	p.sendAudio(key, 0, "ab", false)
	if got := expect[wire.JobFail](p); got.Reason != "AUDIO_LOST" {
		t.Errorf("failed with %s, want AUDIO_LOST", got.Reason)
	}
}

// A job that lacks chunks which the new instance does not have fails at once. One with complete audio continues, and so does
// one whose audio is at a URL.
func TestNoAudioFailsIncompleteJobs(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.Slots = 3
	startNodeWith(t, cfg, node.FastTiming{AudioTimeout: time.Hour}, func(ctx context.Context, job *node.Job) (node.Result, error) {
		if job.ID != "j-half" {
			<-ctx.Done() // an outcome would end the attempt
		}
		return echoAudio(ctx, job)
	})
	p, _ := s.register(defaultAck)
	half, whole, fetched := wire.ActiveJob{JobID: "j-half", AttemptID: 1}, wire.ActiveJob{JobID: "j-whole", AttemptID: 1}, wire.ActiveJob{JobID: "j-fetched", AttemptID: 1}
	for _, key := range []wire.ActiveJob{half, whole, fetched} {
		audio := &wire.Audio{Bytes: 6}
		if key == fetched {
			audio.URL = "/v1/audio/nowhere"
		}
		p.send(wire.JobAssign{JobID: key.JobID, AttemptID: 1, Audio: audio})
		p.expectAck(key)
	}
	p.sendAudio(whole, 0, "abcdef", true)
	p.sendAudio(half, 0, "ab", false)
	p.sync()
	p.drop()
	elsewhere := defaultAck
	elsewhere.NoAudio = []wire.ActiveJob{half, whole, fetched, {JobID: "j-unknown", AttemptID: 1}}
	p, _ = s.register(elsewhere)
	for range 3 { // the node still has the jobs
		expect[wire.JobAck](p)
	}
	if got := expect[wire.JobFail](p); got.ActiveJob != half || got.Reason != "AUDIO_LOST" {
		t.Errorf("%v failed with %s, want %v with AUDIO_LOST", got.ActiveJob, got.Reason, half)
	}
	p.send(wire.JobResultAck{ActiveJob: half})
	p.sync()
	p.drop()
	_, r := s.register(defaultAck)
	if len(r.Active) != 2 || slices.ContainsFunc(r.Active, func(a wire.ActiveAttempt) bool { return a.ActiveJob == half }) {
		t.Errorf("the node still lists %v", r.Active)
	}
}

// The download is retried, and the token of the node is not sent.
func TestAudioFromURL(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.Token = "node-token"
	var calls atomic.Int64
	s.mux.HandleFunc("GET /v1/audio/{job}", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "" || r.URL.Query().Get("sig") != "secret":
			w.WriteHeader(http.StatusTeapot)
		case r.PathValue("job") == "gone":
			w.WriteHeader(http.StatusNotFound)
		case calls.Add(1) == 1:
			w.WriteHeader(http.StatusBadGateway)
		case calls.Load() == 2:
			w.Header().Set("Content-Length", "100") // and the connection breaks
			_, _ = io.WriteString(w, "abc")
		default:
			_, _ = io.WriteString(w, "abcdef")
		}
	})
	startNodeWith(t, cfg, node.FastTiming{}, echoAudio)
	p, _ := s.register(defaultAck)
	for _, url := range []string{s.URL + "/v1/audio/a?sig=secret", "/v1/audio/a?sig=secret"} {
		p.send(wire.JobAssign{JobID: url, AttemptID: 1, Audio: &wire.Audio{URL: url}})
		expect[wire.JobAck](p)
		expectEcho(t, p, "abcdef")
	}
	if got := calls.Load(); got != 4 {
		t.Errorf("%d calls, want 3 for the first and 1 for the second", got)
	}
	for _, url := range []string{s.URL + "/v1/audio/gone?sig=secret", "http://127.0.0.1:1/?sig=secret", "://"} {
		p.send(wire.JobAssign{JobID: url, AttemptID: 1, Audio: &wire.Audio{URL: url}})
		expect[wire.JobAck](p)
		if got := expect[wire.JobFail](p); got.Reason != "AUDIO_LOST" {
			t.Errorf("%s: failed with %s, want AUDIO_LOST", url, got.Reason)
		}
	}
}

// A URL may carry a signature.
func TestErrorsContainNoURLs(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	failed := make(chan error, 1)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, func(ctx context.Context, job *node.Job) (node.Result, error) {
		_, err := job.Audio(ctx)
		failed <- err
		return node.Result{}, err
	})
	p, _ := s.register(defaultAck)
	for _, url := range []string{"http://127.0.0.1:1/?sig=secret", s.URL + "/nowhere?sig=secret", "http://127.0.0.1:1/%zz?sig=secret"} {
		p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{URL: url}})
		if err := receive(t, failed, "an error"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("the error is %v", err)
		}
		expect[wire.JobAck](p)
		p.acknowledge(expect[wire.JobFail](p).ActiveJob)
	}
}

// The audio of a job must not be kept until its result is acknowledged.
func TestAudioIsReleasedWhenHandlerReturns(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	jobs := make(chan weak.Pointer[node.Job], 1)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, func(_ context.Context, job *node.Job) (node.Result, error) {
		jobs <- weak.Make(job)
		return node.Result{}, nil
	})
	p, _ := s.register(defaultAck)
	p.assign("j-1")
	expect[wire.JobResult](p)
	job := receive(t, jobs, "a job")
	for until := time.Now().Add(timeout); job.Value() != nil; runtime.GC() {
		if time.Now().After(until) {
			t.Fatal("the audio is kept")
		}
	}
}

// A server that stops sending costs the job its audio, and does not block the slot.
func TestStalledDownloadFails(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	over := make(chan struct{})
	s.mux.HandleFunc("GET /v1/audio/{job}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("job") == "first" {
			_, _ = w.Write([]byte("abc"))
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) })
	startNodeWith(t, testConfig(s.URL), node.FastTiming{AudioTimeout: 50 * time.Millisecond}, echoAudio)
	p, _ := s.register(defaultAck)
	for _, id := range []string{"first", "silent"} {
		p.send(wire.JobAssign{JobID: id, AttemptID: 1, Audio: &wire.Audio{URL: "/v1/audio/" + id}})
		expect[wire.JobAck](p)
		if got := expect[wire.JobFail](p); got.Reason != "AUDIO_LOST" {
			t.Errorf("%s: failed with %s, want AUDIO_LOST", id, got.Reason)
		}
	}
}

// testPackets are three Opus packets.
var testPackets = [][]byte{{8, 1, 1, 1}, {8, 2}, append([]byte{8}, bytes.Repeat([]byte{3}, 700)...)}

func encodeOgg(t *testing.T, packets ...[]byte) []byte {
	t.Helper()
	file, err := oggopus.Encode(&oggopus.Stream{Channels: 1, SampleRate: 24_000, Packets: packets}, 9)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// receivedAudio is what a handler received.
type receivedAudio struct {
	packets [][]byte
	audio   []byte
	err     error
}

// readPackets is a handler that reads the packets, twice, and the whole audio.
func readPackets(into chan<- receivedAudio) node.Handler {
	return func(ctx context.Context, job *node.Job) (node.Result, error) {
		packets, err := job.Packets(ctx)
		if err == nil {
			_, err = job.Packets(ctx)
		}
		audio, audioErr := job.Audio(ctx)
		if err == nil {
			err = audioErr
		}
		into <- receivedAudio{packets, audio, err}
		return node.Result{}, err
	}
}

var opusFormat = wire.AudioFormat{Encoding: "opus", SampleRate: 24_000, Channels: 1}

// Packets arrive in frames, over two connections, or in an Ogg stream. Audio returns an Ogg stream.
func TestOpusPackets(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	s.mux.HandleFunc("GET /v1/audio/a", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(encodeOgg(t, testPackets...)) })
	got := make(chan receivedAudio, 1)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, readPackets(got))
	want := func(how string) {
		t.Helper()
		g := receive(t, got, "the packets")
		stream, err := oggopus.Decode(g.audio)
		if g.err != nil || err != nil {
			t.Fatalf("%s: %v, %v", how, g.err, err)
		}
		if !reflect.DeepEqual(testPackets, g.packets) || !reflect.DeepEqual(testPackets, stream.Packets) || stream.SampleRate != 24_000 {
			t.Errorf("%s: %d packets, and %d in the stream of %d Hz", how, len(g.packets), len(stream.Packets), stream.SampleRate)
		}
	}
	p, _ := s.register(defaultAck)
	key := wire.ActiveJob{JobID: "frames", AttemptID: 1}
	p.send(wire.JobAssign{JobID: key.JobID, AttemptID: 1, Audio: &wire.Audio{AudioFormat: opusFormat}})
	p.expectAck(key)
	p.sendAudio(key, 0, string(testPackets[0]), false)
	p.sendAudio(key, 1, string(testPackets[1]), false)
	p.sync()
	p.drop()
	p, r := s.register(defaultAck)
	if len(r.Active) != 1 || r.Active[0].AudioChunks != 2 {
		t.Errorf("reported %+v", r.Active)
	}
	p.sendAudio(key, 1, string(testPackets[1]), false) // again
	p.sendAudio(key, 2, string(testPackets[2]), false)
	p.sendAudio(key, 3, "", true) // an empty last chunk is no packet
	want("in frames")
	p.send(wire.JobAssign{JobID: "ogg", AttemptID: 1, Audio: &wire.Audio{AudioFormat: opusFormat, Container: "ogg", URL: "/v1/audio/a"}})
	want("in an Ogg stream")
}

// Damaged audio fails the attempt with AUDIO_LOST, so that another node gets the job.
func TestInvalidOpusAudio(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	s.mux.HandleFunc("GET /v1/audio/{what}", func(w http.ResponseWriter, r *http.Request) {
		file := encodeOgg(t, testPackets...)
		switch r.PathValue("what") {
		case "truncated":
			file = file[:len(file)-1]
		case "other":
			file = []byte("RIFF and so on")
		case "empty":
			file = nil
		}
		_, _ = w.Write(file)
	})
	got := make(chan receivedAudio, 1)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, readPackets(got))
	p, _ := s.register(defaultAck)
	fails := func(assign wire.JobAssign, reason string, frames ...string) {
		t.Helper()
		assign.AttemptID = 1
		p.send(assign)
		expect[wire.JobAck](p)
		for i, data := range frames {
			p.sendAudio(wire.ActiveJob{JobID: assign.JobID, AttemptID: 1}, i, data, i == len(frames)-1)
		}
		g := receive(t, got, "an error")
		if f := expect[wire.JobFail](p); f.Reason != reason || g.err == nil {
			t.Errorf("%s: %v, and the job fails with %s, want %s", assign.JobID, g.err, f.Reason, reason)
		}
		if reason != "AUDIO_LOST" && !errors.Is(g.err, node.ErrNoPackets) {
			t.Errorf("%s: %v", assign.JobID, g.err)
		}
	}
	for _, what := range []string{"truncated", "other", "empty"} {
		fails(wire.JobAssign{JobID: what, Audio: &wire.Audio{AudioFormat: opusFormat, Container: "ogg", URL: "/v1/audio/" + what}}, "AUDIO_LOST")
	}
	fails(wire.JobAssign{JobID: "joined", Audio: &wire.Audio{AudioFormat: opusFormat}}, "AUDIO_LOST", strings.Repeat("x", oggopus.MaxPacket+1))
	fails(wire.JobAssign{JobID: "none", Audio: &wire.Audio{AudioFormat: opusFormat}}, "AUDIO_LOST", "")
	fails(wire.JobAssign{JobID: "pcm", Audio: &wire.Audio{}}, "NODE_FAILED", "abcd")
}

// A scheduler must not be able to fill the memory of a node with empty packets.
func TestPacketCountIsLimited(t *testing.T) {
	t.Parallel()
	if err := node.AddPackets(oggopus.MaxPackets); err != nil {
		t.Errorf("the maximum: %v", err)
	}
	if err := node.AddPackets(oggopus.MaxPackets + 1); err == nil {
		t.Error("one more than the maximum was accepted")
	}
}
