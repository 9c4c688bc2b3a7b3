package client_test

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestEndlessTimes: times that no clock can count are long ones.
func TestEndlessTimes(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		l := limits
		l.ResumeMS, l.IdleMS, l.PingIntervalMS, l.BufferedMS = math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64
		p.begin(l)
		p.send(wire.GoAway{ReconnectMS: math.MaxInt64})
		p.audio("aa")
		p.cut()
	}, ending(0, 2))
	l := start(t, f.config())
	l.say("aa")
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	l.end()
}

// TestHurriedKeepalives: however short the scheduler's patience is, it is not flooded.
func TestHurriedKeepalives(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newPipedFake(t, func(p *peer) {
			l := limits
			l.IdleMS = 1
			p.begin(l)
			at := time.Now()
			for range 10 {
				p.expect(&wire.SessionKeepalive{})
			}
			if took := time.Since(at); took < time.Second {
				t.Errorf("ten keepalives within %v", took)
			}
			for {
				if _, body, err := p.read(); err != nil || strings.Contains(string(body), "session_end") {
					break
				}
			}
			p.send(wire.SessionEnded{SessionID: "s-1"})
		})
		l := start(t, f.config())
		time.Sleep(2 * time.Second)
		l.end()
	})
}

// TestSecondEnd: an utterance ends once, whatever number its second end has.
func TestSecondEnd(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		p.send(result(1, 0), result(2, 0), failure(3, 0), result(4, 1), failure(5, 0), failure(6, 2))
		p.cut()
	}, ending(6, 1))
	l := start(t, f.config())
	wants(l, client.Result(result(1, 0)))
	wants(l, client.Result(result(4, 1)))
	if got := want[client.UtteranceFailed](l); got.UtteranceIndex != 2 {
		t.Errorf("got %+v", got)
	}
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	l.end()
}

// TestFormatOfSpeechWhoseBeginningIsMissing: its result has named it.
func TestFormatOfSpeechWhoseBeginningIsMissing(t *testing.T) {
	t.Parallel()
	opus := wire.AudioFormat{Encoding: "opus", SampleRate: 48_000, Channels: 1}
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		r := result(1, 0)
		r.TTS, r.TTSAudio = "follows", &opus
		p.send(r)
		p.speak(job(0), 1, true, "x")
		p.end(wire.SessionEnded{SessionID: "s-1"})
	})
	l := start(t, f.config())
	if got := want[client.Result](l); got.TTSAudio == nil || *got.TTSAudio != opus {
		t.Errorf("the result says %+v", got.TTSAudio)
	}
	wants(l, client.SpeechChunk{JobID: job(0), AttemptID: 1, Chunk: 1, Last: true, Format: opus, Audio: []byte("x")})
	l.end()
}

// TestSpokenAnew: speech of a higher attempt begins anew, and voids that of a lower.
func TestSpokenAnew(t *testing.T) {
	t.Parallel()
	piece := func(p *peer, attempt, chunk int, last bool) {
		body, err := wire.AppendBinary(nil, &wire.BinaryHeader{
			Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: "j", AttemptID: attempt}, Chunk: chunk, Last: last,
		}, []byte("x"))
		if err != nil {
			p.fail("%v", err)
		}
		p.write(websocket.MessageBinary, body)
	}
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		piece(p, 1, 0, false)
		piece(p, 1, 1, false)
		piece(p, 2, 0, false)
		piece(p, 1, 2, false)
		piece(p, 2, 1, true)
		piece(p, 2, 1, true)
		p.end(wire.SessionEnded{SessionID: "s-1"})
	})
	l := start(t, f.config())
	for _, w := range [][2]int{{1, 0}, {1, 1}, {2, 0}, {2, 1}} {
		if got := want[client.SpeechChunk](l); got.AttemptID != w[0] || got.Chunk != w[1] {
			t.Errorf("got piece %d of attempt %d, want %v", got.Chunk, got.AttemptID, w)
		}
	}
	l.end()
}

// TestNoScheduler: something else answers, and takes the socket.
func TestNoScheduler(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		if conn, err := websocket.Accept(p.answer, p.request, nil); err == nil {
			p.conn = conn
			_, _, _ = p.read()
		}
	})
	if _, err := client.Start(t.Context(), f.config()); err == nil || !strings.Contains(err.Error(), "Config.URL") {
		t.Errorf("Start: %v", err)
	}
}

// mute is a connection that, after its first message, cannot be written to.
type mute struct {
	net.Conn
	writes atomic.Int64
}

// Write implements net.Conn.
func (m *mute) Write(b []byte) (int, error) {
	if m.writes.Add(1) > 1 {
		return 0, errors.New("nothing more goes out")
	}
	return m.Conn.Write(b)
}

// TestRefusedBeforeTheFirstWord: a scheduler may close before it has read anything. What it said is heard all the same.
func TestRefusedBeforeTheFirstWord(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.shut(wire.CloseUnauthorized, wire.Error{Code: wire.Unauthorized})
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &mute{Conn: conn}, err
	}}
	defer transport.CloseIdleConnections()
	cfg := f.config()
	cfg.HTTPClient = &http.Client{Transport: transport}
	_, err := client.Start(t.Context(), cfg)
	lost(t, err, wire.CloseUnauthorized, wire.Unauthorized)
}

// TestReplacedByOurselves: the answer to a resumption was lost, and the scheduler comes to it after the next one. That it
// then closes the next one does not end the session; that somebody else has it does.
func TestReplacedByOurselves(t *testing.T) {
	t.Parallel()
	replaced := func(p *peer) {
		p.resume(0, 1)
		p.shut(wire.CloseReplaced, wire.Error{Code: wire.StaleEpoch})
	}
	f := newFake(t,
		func(p *peer) { p.begin(limits); p.cut() },
		func(p *peer) { p.expect(&wire.SessionResume{}); p.cut() }, // and somebody still holds it
		replaced, replaced)
	l := start(t, f.config())
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	lost(t, l.over(), wire.CloseReplaced, wire.StaleEpoch)
}

// TestAskedToGoAtOnce: the wish may overtake the answer to the first message.
func TestAskedToGoAtOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.expect(&wire.SessionStart{})
		p.send(wire.GoAway{ReconnectMS: 1}, wire.SessionStarted{SessionID: "s-1", ResumeToken: "r-1", Limits: limits})
		_, _, _ = p.read()
	}, ending(0, 1))
	l := start(t, f.config())
	if e := want[client.Reconnecting](l); again(e.Err) == "" {
		t.Errorf("got %v", e.Err)
	}
	want[client.SessionResumed](l)
	l.end()
}
