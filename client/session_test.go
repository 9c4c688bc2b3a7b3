package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// If the events are not read, the client stops reading from the connection and loses no event.
func TestUnreadEventsStopReading(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		const chunks, size = 100, 200 << 10
		var sent atomic.Int32
		f := newInMemoryScheduler(t, func(p *schedulerConn) {
			p.answerStart(defaultLimits)
			for i := range chunks {
				p.sendSpeech("job", i, i == chunks-1, strings.Repeat("x", size))
				sent.Add(1)
			}
			p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
		})
		s := startSession(t, f.config())
		synctest.Wait()
		if n := sent.Load(); n < 8<<20/size || n > 8<<20/size+3 {
			t.Errorf("%d MiB were read ahead", n*size>>20)
		}
		for i := range chunks {
			if got := next[client.SpeechChunk](s); got.Chunk != i {
				t.Fatalf("got chunk %d, want %d", got.Chunk, i)
			}
		}
		s.endSession()
	})
}

// All messages of a session become events, and audio frames are numbered.
func TestSessionFromStartToEnd(t *testing.T) {
	t.Parallel()
	totals := wire.SessionEnded{SessionID: "s-1", Utterances: 2, Results: 1, Errors: 1, AudioMS: 40}
	f := newFakeScheduler(t, func(p *schedulerConn) {
		if got := p.request.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("Authorization is %q", got)
		}
		if got := p.request.URL.Path; got != "/ws/session" {
			t.Errorf("the path is %q", got)
		}
		if got := p.accept().Subprotocol(); got != wire.Subprotocol {
			t.Errorf("the subprotocol is %q", got)
		}
		got := p.answerStart(defaultLimits)
		if diff := cmp.Diff(wire.SessionStart{
			ResumeToken: got.ResumeToken, Langs: []string{"en", "es"}, Partials: true, Audio: wire.SessionAudio{Framing: wire.FramingNumbered}, KeepaliveMS: 1500,
		}, got); diff != "" {
			t.Errorf("session_start (-want +got):\n%s", diff)
		}
		p.expectAudio("aaaa", "bb")
		p.expectFinal(3)
		p.send(wire.AudioAck{Seq: 3}, committedFrame(0, 1, 3))
		p.expectAudio("cc")
		p.expectFinal(5)
		p.send(committedFrame(1, 4, 5))
		p.send(wire.SessionPartial{JobID: jobID(0), AttemptID: 1, Rev: 1, TextTgt: "ho"})
		p.send(wire.Warning{Code: "LATE", Detail: "too late"}, wire.ErrorFrame{Error: wire.Error{Code: wire.InvalidRequest, Detail: "no"}, ReplyTo: "cancel"})
		p.send(resultFrame(1, 0))
		p.sendSpeech(jobID(0), 0, false, "hello")
		p.sendSpeech(jobID(0), 1, true, "")
		p.send(failureFrame(2, 1))
		p.answerEnd(totals)
	})
	cfg := f.config()
	cfg.Token, cfg.Start.Partials = "secret", true
	s := startSession(t, cfg)
	if s.ID() != "s-1" || s.Limits() != defaultLimits {
		t.Errorf("the session is %q with %+v", s.ID(), s.Limits())
	}
	s.write("aaaa", "bb")
	s.commit()
	s.commit() // without audio: nothing is sent
	expect(s, client.UtteranceCommitted(committedFrame(0, 1, 3)))
	s.write("cc")
	s.commit()
	expect(s, client.UtteranceCommitted(committedFrame(1, 4, 5)))
	expect(s, client.PartialResult{JobID: jobID(0), AttemptID: 1, Rev: 1, TextTgt: "ho"})
	expect(s, client.Warning{Code: "LATE", Detail: "too late"})
	expect(s, client.Warning{Code: "INVALID_REQUEST", Detail: "no", ReplyTo: "cancel"})
	expect(s, client.Result(resultFrame(1, 0)))
	usual := wire.AudioFormat{}.OrDefault()
	expect(s, client.SpeechChunk{JobID: jobID(0), AttemptID: 1, Format: usual, Audio: []byte("hello")})
	expect(s, client.SpeechChunk{JobID: jobID(0), AttemptID: 1, Chunk: 1, Last: true, Format: usual, Audio: []byte{}})
	expect(s, client.UtteranceFailed{Seq: 2, UtteranceIndex: 1, JobID: jobID(1), Reason: "CANCELLED", Err: &wire.Error{Code: wire.NoCapableNode, JobID: jobID(1)}})
	if err := errors.Join(s.End(), s.End()); err != nil {
		t.Error(err)
	}
	if _, err := s.Write([]byte("dd")); !errors.Is(err, client.ErrEnded) {
		t.Errorf("writing after the end: %v", err)
	}
	expect(s, client.SessionEnded(totals))
	if err := s.awaitEnd(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := errors.Join(s.Commit(), s.Update(wire.SessionUpdate{})); !errors.Is(err, client.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	for e, err := range s.Events() {
		t.Errorf("after the end: %v, %v", e, err)
	}
}

// The names of an utterance go with its first frame, and an open utterance is ended before.
func TestBeginNamesUtterance(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		p.expectAudio("aa")
		p.expectFinal(2)
		var c wire.AudioChunk
		p.expect(&c)
		want := wire.AudioChunk{Seq: 3, UtteranceID: "u", SrcLang: "es", RequestID: "r", Data: []byte("bb")}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("the first frame (-want +got):\n%s", diff)
		}
		p.expectAudio("cc")
		var cancel wire.SessionCancel
		p.expect(&cancel)
		if cancel != (wire.SessionCancel{}) {
			t.Errorf("got %+v", cancel)
		}
		p.expect(&wire.SessionUpdate{})
		p.expect(&cancel)
		if cancel.JobID != "j" {
			t.Errorf("got %+v", cancel)
		}
		p.expectAudio("dd")
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	})
	s := startSession(t, f.config())
	s.write("aa")
	err := s.Begin(wire.UtteranceStart{UtteranceID: "u", SrcLang: "es", RequestID: "r"})
	s.write("bb", "cc")
	err = errors.Join(err, s.Cancel(wire.SessionCancel{}))
	s.commit()                                             // it was cancelled
	err = errors.Join(err, s.Cancel(wire.SessionCancel{})) // no utterance is open
	err = errors.Join(err, s.Update(wire.SessionUpdate{SrcLang: "es"}), s.Cancel(wire.SessionCancel{JobID: "j"}))
	err = errors.Join(err, s.Begin(wire.UtteranceStart{UtteranceID: "v"}), s.Cancel(wire.SessionCancel{})) // the name is dropped
	if err != nil {
		t.Fatal(err)
	}
	s.write("dd")
	s.endSession()
}

// Each partial result is newer than the previous one, and none follows the result.
func TestStalePartialsAreIgnored(t *testing.T) {
	t.Parallel()
	partial := func(index int64, attempt int, rev int64) wire.SessionPartial {
		return wire.SessionPartial{JobID: jobID(index), UtteranceIndex: index, AttemptID: attempt, Rev: rev}
	}
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		p.send(partial(0, 1, 2), partial(0, 1, 1), partial(0, 1, 2), partial(1, 1, 1), partial(0, 2, 1), partial(0, 1, 9), partial(0, 2, 3))
		p.send(resultFrame(1, 0), partial(0, 3, 1), partial(1, 1, 2))
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	})
	s := startSession(t, f.config())
	for _, want := range []wire.SessionPartial{partial(0, 1, 2), partial(1, 1, 1), partial(0, 2, 1), partial(0, 2, 3)} {
		expect(s, client.PartialResult(want))
	}
	expect(s, client.Result(resultFrame(1, 0)))
	expect(s, client.PartialResult(partial(1, 1, 2)))
	s.endSession()
}

func TestCloseEndsSession(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		_, _, _ = p.read()
		close(closed)
	})
	s := startSession(t, f.config())
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	<-closed
	if err := s.awaitEnd(); !errors.Is(err, client.ErrClosed) {
		t.Errorf("the events end with %v", err)
	}
	if _, err := s.Write([]byte("aa")); !errors.Is(err, client.ErrClosed) {
		t.Errorf("writing: %v", err)
	}
}

// An invalid message ends the session. A message of an unknown type is ignored.
func TestInvalidMessageEndsSession(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"type":"result","seq":"one"}`, `nonsense`} {
		f := newFakeScheduler(t, func(p *schedulerConn) {
			p.answerStart(defaultLimits)
			p.write(1, []byte(`{"type":"unknown_type"}`))
			p.write(1, []byte(text))
			_, _, _ = p.read()
		})
		s := startSession(t, f.config())
		var e *wire.Error
		if err := s.awaitEnd(); !errors.As(err, &e) {
			t.Errorf("%s: ended with %v", text, err)
		}
	}
}

func TestSecondTerminalMessageIsIgnored(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		p.send(resultFrame(1, 0), resultFrame(2, 0), failureFrame(3, 0), resultFrame(4, 1), failureFrame(5, 0), failureFrame(6, 2))
		p.drop()
	}, resumeAndEnd(6, 1))
	s := startSession(t, f.config())
	expect(s, client.Result(resultFrame(1, 0)))
	expect(s, client.Result(resultFrame(4, 1)))
	if got := next[client.UtteranceFailed](s); got.UtteranceIndex != 2 {
		t.Errorf("got %+v", got)
	}
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	s.endSession()
}

// The result names the format if the first chunk of the speech is missing.
func TestSpeechFormatFromResult(t *testing.T) {
	t.Parallel()
	opus := wire.AudioFormat{Encoding: "opus", SampleRate: 48_000, Channels: 1}
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		r := resultFrame(1, 0)
		r.TTS, r.TTSAudio = "follows", &opus
		p.send(r)
		p.sendSpeech(jobID(0), 1, true, "x")
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	})
	s := startSession(t, f.config())
	if got := next[client.Result](s); got.TTSAudio == nil || *got.TTSAudio != opus {
		t.Errorf("the result has %+v", got.TTSAudio)
	}
	expect(s, client.SpeechChunk{JobID: jobID(0), AttemptID: 1, Chunk: 1, Last: true, Format: opus, Audio: []byte("x")})
	s.endSession()
}

// The speech of a higher attempt starts anew and voids that of a lower one.
func TestSpeechOfHigherAttempt(t *testing.T) {
	t.Parallel()
	sendChunk := func(p *schedulerConn, attempt, chunk int, last bool) {
		body, err := wire.AppendBinary(nil, &wire.BinaryHeader{
			Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: "j", AttemptID: attempt}, Chunk: chunk, Last: last,
		}, []byte("x"))
		if err != nil {
			p.fail("%v", err)
		}
		p.write(websocket.MessageBinary, body)
	}
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		sendChunk(p, 1, 0, false)
		sendChunk(p, 1, 1, false)
		sendChunk(p, 2, 0, false)
		sendChunk(p, 1, 2, false)
		sendChunk(p, 2, 1, true)
		sendChunk(p, 2, 1, true)
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	})
	s := startSession(t, f.config())
	for _, w := range [][2]int{{1, 0}, {1, 1}, {2, 0}, {2, 1}} {
		if got := next[client.SpeechChunk](s); got.AttemptID != w[0] || got.Chunk != w[1] {
			t.Errorf("got chunk %d of attempt %d, want %v", got.Chunk, got.AttemptID, w)
		}
	}
	s.endSession()
}

func TestContextEndsSession(t *testing.T) {
	testWithFakeTime(t, func(t *testing.T) {
		f := newInMemoryScheduler(t, func(p *schedulerConn) {
			l := defaultLimits
			l.BufferedMS = 1000
			p.answerStart(l)
			readAudio(p, func([]byte) {})
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s, err := client.Start(ctx, f.config())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Write(make([]byte, 32000*60)); !errors.Is(err, context.DeadlineExceeded) || n < 5*32000 || n > 6*32000 {
			t.Errorf("wrote %d bytes: %v", n, err)
		}
		for e, err := range s.Events() {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, %v", e, err)
			}
		}
		_ = s.Close()
	})
}

// A session whose token has expired sends another one, if there is a source of tokens.
func TestExpiredTokenIsRenewed(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		p.send(wire.Warning{Code: wire.TokenExpired, Detail: "expired"})
		var update wire.SessionUpdate
		p.expect(&update)
		if update.Token != "another-token" {
			p.fail("%+v", update)
		}
		p.expect(&wire.SessionEnd{})
		p.send(wire.SessionEnded{SessionID: "s-1"})
		p.drop()
	})
	cfg := f.config()
	cfg.Token = "first-token"
	cfg.TokenSource = func(context.Context) (string, error) { return "another-token", nil }
	s := startSession(t, cfg)
	if w := next[client.Warning](s); w.Code != string(wire.TokenExpired) {
		t.Errorf("%+v", w)
	}
	s.endSession()
}
