package node_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// listen is a handler that gives back what it heard, and asks twice.
func listen(ctx context.Context, job *node.Job) (node.Result, error) {
	audio, err := job.Audio(ctx)
	if err != nil {
		return node.Result{}, err
	}
	again, err := job.Audio(ctx)
	return node.Result{TextSrc: string(audio), TextTgt: string(again)}, err
}

func wantHeard(t *testing.T, p *peer, what string) {
	t.Helper()
	want := `{"text_src":"` + what + `","text_tgt":"` + what + `"}`
	if got := string(expect[wire.JobResult](p).Result); got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
}

// TestAudioInFrames: chunks are put together in order; what comes again or too early is left aside.
func TestAudioInFrames(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	serve(t, basic(s.URL), node.Quick{}, listen)
	p, _ := s.registered(anyAck)
	assign := wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{Bytes: 6}}
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	p.send(assign)
	p.confirmed(key) // which does not wait for the audio
	p.audio(key, 0, "ab", false)
	p.audio(key, 2, "zz", true) // too early
	p.audio(key, 0, "ab", false)
	p.audio(wire.ActiveJob{JobID: "j-1", AttemptID: 2}, 1, "zz", true) // another attempt's

	// The rest comes over the next connection, with another assignment of the same attempt and from the beginning.
	p.cut()
	p, _ = s.registered(anyAck)
	p.confirmed(key)
	p.send(assign)
	p.confirmed(key)
	p.audio(key, 0, "ab", false)
	p.audio(key, 1, "cdef", false)
	p.audio(key, 2, "", true) // the last may be empty
	p.audio(key, 3, "zz", true)
	wantHeard(t, p, "abcdef")
}

// TestAudioChunksAreReported when the node registers again, so that it is sent the rest: also of a job whose handler has
// returned, which needs none.
func TestAudioChunksAreReported(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	serve(t, basic(s.URL), node.Quick{}, listen)
	p, _ := s.registered(anyAck)
	half, whole := wire.ActiveJob{JobID: "j-half", AttemptID: 1}, wire.ActiveJob{JobID: "j-whole", AttemptID: 1}
	for _, key := range []wire.ActiveJob{half, whole} {
		p.send(wire.JobAssign{JobID: key.JobID, AttemptID: 1, Audio: &wire.Audio{Bytes: 6}})
		p.confirmed(key)
	}
	p.audio(whole, 0, "abc", false)
	p.audio(whole, 1, "def", true)
	wantHeard(t, p, "abcdef") // and is not acknowledged
	p.audio(half, 0, "ab", false)
	p.audio(half, 2, "zz", false) // after a gap
	p.settled()
	p.cut()
	p, r := s.registered(anyAck)
	got := make(map[wire.ActiveJob]int)
	for _, a := range r.Active {
		got[a.ActiveJob] = a.AudioChunks
	}
	if diff := cmp.Diff(map[wire.ActiveJob]int{half: 1, whole: 2}, got); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	p.audio(half, 1, "cdef", true)
	for { // the acknowledgement and the other's result come again
		m, ok := p.next()
		if !ok {
			t.Fatal("the rest came, and no result")
		}
		if m.typ == (wire.JobResult{}).Type() && strings.Contains(string(m.text), half.JobID) {
			if !strings.Contains(string(m.text), `{"text_src":"abcdef","text_tgt":"abcdef"}`) {
				t.Errorf("heard %s", m.text)
			}
			return
		}
	}
}

// TestAudioThatDoesNotCome: the job goes to another node rather than to its deadline.
func TestAudioThatDoesNotCome(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	serve(t, basic(s.URL), node.Quick{Stall: 50 * time.Millisecond}, listen)
	p, _ := s.registered(anyAck)
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{}})
	p.confirmed(key)
	p.audio(key, 0, "ab", false)
	if got := expect[wire.JobFail](p); got.Reason != "AUDIO_LOST" {
		t.Errorf("failed with %s, want AUDIO_LOST", got.Reason)
	}
}

// TestAudioThatWillNotCome: a job that misses chunks which its new connection cannot bring fails at once. One whose audio is
// all there goes on, and so does one whose audio is fetched.
func TestAudioThatWillNotCome(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.Slots = 3
	serve(t, cfg, node.Quick{Stall: time.Hour}, func(ctx context.Context, job *node.Job) (node.Result, error) {
		if job.ID != "j-half" {
			<-ctx.Done() // whatever it says of its audio would be an outcome
		}
		return listen(ctx, job)
	})
	p, _ := s.registered(anyAck)
	half, whole, fetched := wire.ActiveJob{JobID: "j-half", AttemptID: 1}, wire.ActiveJob{JobID: "j-whole", AttemptID: 1}, wire.ActiveJob{JobID: "j-fetched", AttemptID: 1}
	for _, key := range []wire.ActiveJob{half, whole, fetched} {
		audio := &wire.Audio{Bytes: 6}
		if key == fetched {
			audio.URL = "/v1/audio/nowhere"
		}
		p.send(wire.JobAssign{JobID: key.JobID, AttemptID: 1, Audio: audio})
		p.confirmed(key)
	}
	p.audio(whole, 0, "abcdef", true)
	p.audio(half, 0, "ab", false)
	p.settled()
	p.cut()
	elsewhere := anyAck
	elsewhere.NoAudio = []wire.ActiveJob{half, whole, fetched, {JobID: "j-unknown", AttemptID: 1}}
	p, _ = s.registered(elsewhere)
	for range 3 { // it still has them
		expect[wire.JobAck](p)
	}
	if got := expect[wire.JobFail](p); got.ActiveJob != half || got.Reason != "AUDIO_LOST" {
		t.Errorf("%v failed with %s, want %v with AUDIO_LOST", got.ActiveJob, got.Reason, half)
	}
	p.send(wire.JobResultAck{ActiveJob: half})
	p.settled()
	p.cut()
	_, r := s.registered(anyAck)
	if len(r.Active) != 2 || slices.ContainsFunc(r.Active, func(a wire.ActiveAttempt) bool { return a.ActiveJob == half }) {
		t.Errorf("the node still has %v", r.Active)
	}
}

// TestAudioFromURL: it is fetched, again if need be, and the node's token stays here.
func TestAudioFromURL(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
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
	serve(t, cfg, node.Quick{}, listen)
	p, _ := s.registered(anyAck)
	for _, url := range []string{s.URL + "/v1/audio/a?sig=secret", "/v1/audio/a?sig=secret"} {
		p.send(wire.JobAssign{JobID: url, AttemptID: 1, Audio: &wire.Audio{URL: url}})
		expect[wire.JobAck](p)
		wantHeard(t, p, "abcdef")
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

// TestErrorsDoNotNameURLs: they carry permissions.
func TestErrorsDoNotNameURLs(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	failed := make(chan error, 1)
	serve(t, basic(s.URL), node.Quick{}, func(ctx context.Context, job *node.Job) (node.Result, error) {
		_, err := job.Audio(ctx)
		failed <- err
		return node.Result{}, err
	})
	p, _ := s.registered(anyAck)
	for _, url := range []string{"http://127.0.0.1:1/?sig=secret", s.URL + "/nowhere?sig=secret", "http://127.0.0.1:1/%zz?sig=secret"} {
		p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{URL: url}})
		if err := receive(t, failed, "an error"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("the error is %v", err)
		}
		expect[wire.JobAck](p)
		p.acknowledge(expect[wire.JobFail](p).ActiveJob)
	}
}

// TestSpeechInFrames: it follows its result, in pieces that fit, also when the result is sent again.
func TestSpeechInFrames(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	speech := bytes.Repeat([]byte("0123456789"), 2*wire.MaxChunk/10+1)
	serve(t, basic(s.URL), node.Quick{}, returning(node.Result{TextTgt: "hola", Speech: speech}))
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	for range 2 {
		if got := expect[wire.JobResult](p); !got.TTS {
			t.Error("the result does not say that speech follows")
		}
		var all []byte
		for chunk := 0; ; chunk++ {
			m, _ := p.next()
			if m.typ != "" || m.header.Kind != wire.KindTTS || m.header.ActiveJob != key || m.header.Chunk != chunk || len(m.data) > wire.MaxChunk {
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
		p.assign("j-1")
	}
}

// TestSpeechUploaded: it is there before the result, which says so, and announces no frames of it.
func TestSpeechUploaded(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
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
	serve(t, basic(s.URL), node.Quick{}, returning(node.Result{TextTgt: "hola", Speech: []byte("sound")}))
	p, _ := s.registered(anyAck)
	for _, id := range []string{"kept", "lost"} {
		p.send(wire.JobAssign{JobID: id, AttemptID: 1, TTSUpload: s.URL + "/v1/audio/" + id + "/tts?sig=secret"})
		expect[wire.JobAck](p)
		got := expect[wire.JobResult](p)
		if got.TTS {
			t.Error("the result announces frames of speech that was uploaded")
		}
		if says := strings.Contains(string(got.Result), `"tts":true`); says != (id == "kept") {
			t.Errorf("of speech that is %s the result says: %s", id, got.Result)
		}
		if id == "kept" {
			select {
			case body := <-uploads:
				if body != "sound" {
					t.Errorf("uploaded was %q", body)
				}
			default:
				t.Error("the result came before the speech")
			}
		}
	}
	p.send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: "mark"}})
	expect[wire.JobCancelled](p) // and no binary frame before it
}
