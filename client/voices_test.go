package client

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestOpenIsBounded: a scheduler that commits and commits, and never ends an utterance, does not fill the memory.
func TestOpenIsBounded(t *testing.T) {
	t.Parallel()
	s := &Session{ctx: t.Context(), inbox: newInbox(), heard: newHeard(), out: newJournal(0)}
	for i := range int64(2 * mostOpen) {
		if err := s.hearCommitted(&wire.UtteranceCommitted{UtteranceIndex: i}, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.hearPartial(&wire.SessionPartial{UtteranceIndex: i}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := len(s.heard.spans), len(s.heard.shown); n != mostOpen || m != mostOpen {
		t.Errorf("%d and %d are remembered, want %d", n, m, mostOpen)
	}
}

// TestVoicesAreForgotten: speech that never ends is not remembered without end.
func TestVoicesAreForgotten(t *testing.T) {
	t.Parallel()
	var v voices
	for i := range 10 * mostVoices {
		h := wire.BinaryHeader{ActiveJob: wire.ActiveJob{JobID: fmt.Sprint(i), AttemptID: 1}}
		_, once := v.first(&h)
		if _, twice := v.first(&h); !once || twice {
			t.Fatalf("the first piece of %d was not taken once", i)
		}
	}
	if len(v) != mostVoices {
		t.Errorf("%d are remembered, want %d", len(v), mostVoices)
	}
}

// TestFormatOfSpeech: the first piece says it, or the result did if that piece is missing; of another attempt it is another.
func TestFormatOfSpeech(t *testing.T) {
	t.Parallel()
	pcm, wav := wire.AudioFormat{}.OrDefault(), wire.AudioFormat{Encoding: "wav", SampleRate: 24_000, Channels: 1}
	opus := wire.AudioFormat{Encoding: "opus", SampleRate: 48_000, Channels: 2}
	var v voices
	piece := func(job string, attempt, chunk int, says *wire.AudioFormat, want wire.AudioFormat) {
		t.Helper()
		h := wire.BinaryHeader{ActiveJob: wire.ActiveJob{JobID: job, AttemptID: attempt}, Chunk: chunk, Audio: says}
		if got, first := v.first(&h); !first || got != want {
			t.Errorf("piece %d of attempt %d of %s is %+v, %v; want %+v", chunk, attempt, job, got, first, want)
		}
	}
	piece("older", 1, 0, nil, pcm)
	piece("said", 1, 0, &wire.AudioFormat{Encoding: "wav", SampleRate: 24_000}, wav)
	piece("said", 1, 1, nil, wav)
	piece("said", 2, 0, nil, pcm)
	v.announced(&wire.SessionResult{JobID: "missed", AttemptID: 1, TTSAudio: &opus})
	piece("missed", 1, 3, nil, opus)
	v.announced(&wire.SessionResult{JobID: "missed", AttemptID: 1, TTSAudio: &wav}) // it has begun
	piece("missed", 1, 4, &wav, opus)
	v.announced(&wire.SessionResult{JobID: "missed", AttemptID: 2})
	v.announced(&wire.SessionResult{JobID: "missed", AttemptID: 2, TTSAudio: &wav})
	piece("missed", 2, 1, nil, wav)
}
