package client

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// A scheduler that commits utterances without end and never finishes one must not fill the memory.
func TestTrackedUtterancesAreLimited(t *testing.T) {
	t.Parallel()
	r := newReceiver(t.Context(), newEventQueue(), newSender(t.Context(), &wire.SessionStarted{}))
	for i := range int64(2 * maxTracked) {
		if err := r.handleCommitted(&wire.UtteranceCommitted{UtteranceIndex: i}, 0); err != nil {
			t.Fatal(err)
		}
		if err := r.handlePartial(&wire.SessionPartial{UtteranceIndex: i}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := len(r.firstFrames), len(r.partials); n != maxTracked || m != maxTracked {
		t.Errorf("%d and %d utterances are tracked, want %d", n, m, maxTracked)
	}
}

func TestTrackedSpeechIsLimited(t *testing.T) {
	t.Parallel()
	var tracker speechTracker
	for i := range 10 * maxTrackedSpeech {
		h := wire.BinaryHeader{ActiveJob: wire.ActiveJob{JobID: fmt.Sprint(i), AttemptID: 1}}
		_, first := tracker.accept(&h)
		if _, second := tracker.accept(&h); !first || second {
			t.Fatalf("the first chunk of job %d was not accepted once", i)
		}
	}
	if len(tracker) != maxTrackedSpeech {
		t.Errorf("%d jobs are tracked, want %d", len(tracker), maxTrackedSpeech)
	}
}

// The first chunk names the format, or the result does if that chunk is missing. Another attempt may have another format.
func TestSpeechFormat(t *testing.T) {
	t.Parallel()
	pcm, wav := wire.AudioFormat{}.OrDefault(), wire.AudioFormat{Encoding: "wav", SampleRate: 24_000, Channels: 1}
	opus := wire.AudioFormat{Encoding: "opus", SampleRate: 48_000, Channels: 2}
	var tracker speechTracker
	accept := func(job string, attempt, chunk int, named *wire.AudioFormat, want wire.AudioFormat) {
		t.Helper()
		h := wire.BinaryHeader{ActiveJob: wire.ActiveJob{JobID: job, AttemptID: attempt}, Chunk: chunk, Audio: named}
		if got, isNew := tracker.accept(&h); !isNew || got != want {
			t.Errorf("chunk %d of attempt %d of %s is %+v, %v; want %+v", chunk, attempt, job, got, isNew, want)
		}
	}
	accept("unnamed", 1, 0, nil, pcm)
	accept("named", 1, 0, &wire.AudioFormat{Encoding: "wav", SampleRate: 24_000}, wav)
	accept("named", 1, 1, nil, wav)
	accept("named", 2, 0, nil, pcm)
	tracker.announce(&wire.SessionResult{JobID: "missed", AttemptID: 1, TTSAudio: &opus})
	accept("missed", 1, 3, nil, opus)
	tracker.announce(&wire.SessionResult{JobID: "missed", AttemptID: 1, TTSAudio: &wav}) // ignored: the speech has begun
	accept("missed", 1, 4, &wav, opus)
	tracker.announce(&wire.SessionResult{JobID: "missed", AttemptID: 2})
	tracker.announce(&wire.SessionResult{JobID: "missed", AttemptID: 2, TTSAudio: &wav})
	accept("missed", 2, 1, nil, wav)
}

// TestFatalErrorWhileSending: the sender notices the end of a connection while the receiver handles the error that precedes it. The race
// detector finds unsynchronised access.
func TestFatalErrorWhileSending(t *testing.T) {
	t.Parallel()
	conn := newConnection(t.Context())
	sent := make(chan error)
	go func() { sent <- conn.lost(io.ErrClosedPipe) }()
	if err := new(receiver).handleError(conn, &wire.ErrorFrame{Error: wire.Error{Code: wire.Forbidden}, Fatal: true}, 0); err != nil {
		t.Fatal(err)
	}
	<-sent
	var lost *ConnectionError
	if !errors.As(conn.lost(io.ErrClosedPipe), &lost) || lost.Frame == nil || lost.Frame.Code != wire.Forbidden {
		t.Errorf("the connection was lost with %v", lost)
	}
}
