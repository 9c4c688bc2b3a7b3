package client_test

import (
	"encoding/binary"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// beginNumbered answers session_start with what the client asks for.
func (p *peer) beginNumbered(l wire.SessionLimits) {
	p.t.Helper()
	var start wire.SessionStart
	p.expect(&start)
	if start.Audio.Framing != wire.FramingNumbered {
		p.fail("the client asks for framing %q", start.Audio.Framing)
	}
	p.send(wire.SessionStarted{SessionID: "s-1", ResumeToken: "r-1", Langs: start.Langs, Audio: start.Audio, Limits: l})
}

// numbered takes the next messages, which are audio frames with their numbers.
func (p *peer) numbered(from int64, want ...string) {
	p.t.Helper()
	for i, w := range want {
		typ, body, err := p.read()
		if err != nil {
			p.fail("waiting for audio: %v", err)
		}
		seq := from + int64(i)
		if typ != websocket.MessageBinary || len(body) < 8 || binary.BigEndian.Uint64(body) != uint64(seq) || string(body[8:]) != w {
			p.fail("got %.60q, want frame %d with the audio %q", body, seq, w)
		}
	}
}

// Frames carry their numbers, and are sent again with the same ones.
func TestNumberedFrames(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.beginNumbered(limits)
		p.numbered(1, "aa", "bb")
		p.cut()
	}, func(p *peer) {
		p.resume(0, 2)
		p.numbered(2, "bb", "cc")
		p.final(4)
		p.send(committed(0, 1, 4), result(1, 0))
		p.end(wire.SessionEnded{SessionID: "s-1"})
		if p.acked != 1 {
			t.Errorf("the result was acknowledged up to %d", p.acked)
		}
	})
	l := start(t, f.config())
	l.say("aa", "bb")
	want[client.Reconnecting](l)
	l.say("cc")
	l.commit()
	want[client.SessionResumed](l)
	want[client.UtteranceCommitted](l)
	want[client.Result](l)
	l.end()
}

// Audio that is not kept any more is said to be gone, and the session goes on with what there is.
func TestAudioGone(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.beginNumbered(limits)
		p.numbered(1, "aa")
		p.final(2)
		p.send(committed(0, 1, 1), result(1, 0)) // so that its audio is dropped
		p.numbered(3, "bb")
		p.cut()
	}, func(p *peer) {
		// The scheduler has lost its last moments: it wants the first utterance again.
		p.resumeWith(1, wire.SessionResumed{
			SessionID: "s-1", Recovered: true, NextAudioSeq: 1, LastSeq: 1,
			AudioNeeded: []wire.AudioSpan{{UtteranceIndex: 0, FirstSeq: 1, LastSeq: 1}},
		})
		var gone wire.AudioGone
		p.expect(&gone)
		if gone.UtteranceIndex != 0 {
			p.fail("%+v", gone)
		}
		var last wire.AudioChunk
		p.expect(&last) // the end of the first utterance is kept
		p.numbered(3, "bb")
		p.final(4)
		p.end(wire.SessionEnded{SessionID: "s-1"})
	})
	l := start(t, f.config())
	l.say("aa")
	l.commit()
	want[client.UtteranceCommitted](l)
	want[client.Result](l)
	l.say("bb")
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	l.commit()
	l.end()
}
