package client_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestResendsAudioFromRequestedFrame(t *testing.T) {
	t.Parallel()
	frames := []string{"aa", "bb", "cc", "dd"}
	for from := int64(1); from <= 5; from++ {
		dropped := make(chan struct{})
		f := newFakeScheduler(t, func(p *schedulerConn) {
			p.answerStart(defaultLimits)
			p.expectAudio(frames...)
			p.drop()
			close(dropped)
		}, func(p *schedulerConn) {
			<-dropped
			p.answerResume(0, from)
			p.expectAudio(frames[from-1:]...)
			p.expectAudio("ee")
			p.expectFinal(6)
			p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
		})
		s := startSession(t, f.config())
		s.write(frames...)
		next[client.Reconnecting](s)
		s.write("ee") // without a connection
		s.commit()
		expect(s, client.SessionResumed{Recovered: true, ResentFrames: 5 - from})
		s.endSession()
	}
}

// Messages that were received are not delivered again, missing ones are, and audio is kept until its result.
func TestEventsAreDeliveredOnceAfterResume(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		p.expectAudio("aa")
		p.expectFinal(2)
		p.expectAudio("bb")
		p.expectFinal(4)
		p.send(committedFrame(0, 1, 2), committedFrame(1, 3, 4), resultFrame(1, 0))
		p.send(wire.SessionPartial{JobID: jobID(1), UtteranceIndex: 1, AttemptID: 1, Rev: 3})
		p.sendSpeech(jobID(0), 0, false, "x")
		p.drop()
	}, func(p *schedulerConn) {
		p.answerResume(1, 3)
		p.expectAudio("bb")
		p.expectFinal(4)
		p.send(resultFrame(1, 0), committedFrame(0, 1, 2), committedFrame(1, 3, 4))
		p.send(wire.SessionPartial{JobID: jobID(1), UtteranceIndex: 1, AttemptID: 1, Rev: 3})
		p.sendSpeech(jobID(0), 0, false, "x")
		p.sendSpeech(jobID(0), 1, true, "y")
		p.send(failureFrame(2, 1), failureFrame(2, 1), resultFrame(3, 2))
		p.drop()
	}, resumeAndEnd(3, 5))
	s := startSession(t, f.config())
	s.write("aa")
	s.commit()
	s.write("bb")
	s.commit()
	expect(s, client.UtteranceCommitted(committedFrame(0, 1, 2)))
	expect(s, client.UtteranceCommitted(committedFrame(1, 3, 4)))
	expect(s, client.Result(resultFrame(1, 0)))
	next[client.PartialResult](s)
	next[client.SpeechChunk](s)
	next[client.Reconnecting](s)
	expect(s, client.SessionResumed{Recovered: true, ResentFrames: 2})
	expect(s, client.SpeechChunk{JobID: jobID(0), AttemptID: 1, Chunk: 1, Last: true, Format: wire.AudioFormat{}.OrDefault(), Audio: []byte("y")})
	if got := next[client.UtteranceFailed](s); got.UtteranceIndex != 1 {
		t.Errorf("got %+v", got)
	}
	expect(s, client.Result(resultFrame(3, 2)))
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	s.endSession()
}

func TestConnectionLostDuringResume(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t,
		func(p *schedulerConn) { p.answerStart(defaultLimits); p.expectAudio("aa"); p.drop() },
		func(p *schedulerConn) { p.accept(); p.drop() },
		func(p *schedulerConn) { p.expect(&wire.SessionResume{}); p.drop() },
		func(p *schedulerConn) { p.response.WriteHeader(503) },
		func(p *schedulerConn) { p.answerResume(0, 1); p.drop() },
		func(p *schedulerConn) {
			p.answerResume(0, 1)
			p.expectAudio("aa")
			p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
		},
	)
	s := startSession(t, f.config())
	s.write("aa")
	next[client.Reconnecting](s)
	expect(s, client.SessionResumed{Recovered: true, ResentFrames: 1})
	next[client.Reconnecting](s)
	expect(s, client.SessionResumed{Recovered: true, ResentFrames: 1})
	s.endSession()
}

// A message keeps its place among the audio, and the name of an utterance is not repeated after its end.
func TestMessagesAreResentInPlace(t *testing.T) {
	t.Parallel()
	named := func(p *schedulerConn, id string, seq int64) {
		var c wire.AudioChunk
		if p.expect(&c); c.UtteranceID != id || c.Seq != seq {
			p.fail("got %+v, want the utterance %q at %d", c, id, seq)
		}
	}
	all := func(p *schedulerConn) {
		p.expect(&wire.SessionUpdate{})
		p.expectAudio("bb")
		p.expectFinal(5)
		named(p, "v", 6)
		p.expect(&wire.SessionCancel{})
		p.expect(&wire.SessionEnd{})
	}
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		named(p, "u", 1)
		p.expectAudio("aa")
		p.expectFinal(3)
		p.send(committedFrame(0, 1, 3))
		all(p)
		p.drop()
	}, func(p *schedulerConn) {
		p.answerResume(0, 1)
		named(p, "u", 1) // the instance may have lost the name too
		p.expectAudio("aa")
		p.expectFinal(3)
		all(p)
		p.send(resultFrame(1, 0))
		p.drop()
	}, func(p *schedulerConn) {
		p.answerResume(1, 4)
		all(p)
		p.drop()
	}, func(p *schedulerConn) {
		p.answerResume(1, 7)
		p.expect(&wire.SessionCancel{})
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	})
	s := startSession(t, f.config())
	err := s.Begin(wire.UtteranceStart{UtteranceID: "u"})
	s.write("uu", "aa")
	s.commit()
	next[client.UtteranceCommitted](s)
	err = errors.Join(err, s.Update(wire.SessionUpdate{SrcLang: "es"}))
	s.write("bb")
	err = errors.Join(err, s.Begin(wire.UtteranceStart{UtteranceID: "v"}))
	s.write("vv")
	err = errors.Join(err, s.Cancel(wire.SessionCancel{}), s.End())
	if err != nil {
		t.Fatal(err)
	}
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	next[client.Result](s)
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	s.endSession()
}

// The program learns that messages are lost, and later messages with lower numbers are delivered.
func TestUnrecoveredMessages(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		p.send(resultFrame(1, 0), resultFrame(2, 1), resultFrame(3, 2))
		p.drop()
	}, func(p *schedulerConn) {
		p.answerResumeWith(3, wire.SessionResumed{LastSeq: 9, NextAudioSeq: 1})
		p.send(resultFrame(8, 7), resultFrame(9, 8))
		p.drop()
	}, func(p *schedulerConn) {
		p.answerResumeWith(9, wire.SessionResumed{LastSeq: 0, NextAudioSeq: 1})
		p.send(resultFrame(1, 9))
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	})
	s := startSession(t, f.config())
	for _, r := range []wire.SessionResult{resultFrame(1, 0), resultFrame(2, 1), resultFrame(3, 2)} {
		expect(s, client.Result(r))
	}
	next[client.Reconnecting](s)
	expect(s, client.SessionResumed{Recovered: false})
	expect(s, client.Result(resultFrame(8, 7)))
	expect(s, client.Result(resultFrame(9, 8)))
	next[client.Reconnecting](s)
	expect(s, client.SessionResumed{Recovered: false})
	expect(s, client.Result(resultFrame(1, 9)))
	s.endSession()
}

// The session cannot continue if the scheduler asks for audio that is discarded or was never written.
func TestResumeFailsWithoutAudio(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ask       int64
		discarded bool
	}{{1, true}, {2, true}, {3, false}, {4, false}, {5, false}} {
		f := newFakeScheduler(t, func(p *schedulerConn) {
			p.answerStart(defaultLimits)
			p.expectAudio("aa")
			p.expectFinal(2)
			p.expectAudio("bb")
			p.send(committedFrame(0, 1, 2), resultOfFrames(1, 0, 1, 2))
			p.drop()
		}, func(p *schedulerConn) {
			p.answerResume(1, c.ask)
			_, _, _ = p.read()
			p.drop()
		})
		s := startSession(t, f.config())
		s.write("aa")
		s.commit()
		s.write("bb")
		next[client.UtteranceCommitted](s)
		next[client.Result](s)
		next[client.Reconnecting](s)
		if c.ask == 3 || c.ask == 4 {
			next[client.SessionResumed](s)
			_ = s.Close()
			continue
		}
		if err := s.awaitEnd(); errors.Is(err, client.ErrAudioDiscarded) != c.discarded || err == nil {
			t.Errorf("asked for %d: ended with %v", c.ask, err)
		}
	}
}

// A terminal message releases the audio of its utterance and of those before it, also if their own messages were lost.
func TestAudioIsReleasedWithoutCommit(t *testing.T) {
	t.Parallel()
	for name, frames := range map[string][]wire.Frame{
		"result":                 {resultOfFrames(1, 0, 1, 2)},
		"error":                  {wire.ErrorFrame{Error: wire.Error{Code: wire.NoCapableNode}, Seq: 1, UtteranceIndex: new(int64), FirstSeq: 1, LastSeq: 2}},
		"next commit before":     {committedFrame(1, 3, 4), resultOfFrames(1, 0, 1, 1)},
		"next commit after":      {resultOfFrames(1, 0, 1, 1), committedFrame(1, 3, 4)},
		"result of the next one": {committedFrame(0, 1, 2), resultOfFrames(2, 1, 3, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeScheduler(t, func(p *schedulerConn) {
				p.answerStart(defaultLimits)
				p.expectAudio("aa")
				p.expectFinal(2)
				p.expectAudio("bb")
				p.expectFinal(4)
				p.send(frames...)
				p.drop()
			}, func(p *schedulerConn) {
				var r wire.SessionResume
				p.expect(&r)
				p.send(wire.SessionResumed{Recovered: true, NextAudioSeq: 2})
				_, _, _ = p.read()
			})
			s := startSession(t, f.config())
			s.write("aa")
			s.commit()
			s.write("bb")
			s.commit()
			for e, err := range s.Events() {
				if err != nil {
					if !errors.Is(err, client.ErrAudioDiscarded) {
						t.Errorf("ended with %v", err)
					}
					return
				}
				if _, ok := e.(client.SessionResumed); ok {
					t.Error("audio of an utterance that is over was kept")
					_ = s.Close()
				}
			}
		})
	}
}

// After some close codes the session is resumed, after others it ends with the error of the scheduler.
func TestCloseCodes(t *testing.T) {
	t.Parallel()
	for code, sent := range map[wire.CloseCode]wire.Code{
		1000: "", 1001: "", 1011: "",
		wire.CloseInternal: wire.Internal, wire.CloseDraining: wire.SchedulerDependencyDown, wire.CloseSlow: wire.RateLimited,
		wire.CloseBadMessage: wire.InvalidRequest, wire.CloseUnauthorized: wire.Unauthorized, wire.CloseForbidden: wire.Forbidden,
		wire.CloseNotFound: wire.NotFound, wire.CloseIdle: wire.DeadlineExceeded, wire.CloseReplaced: wire.StaleEpoch, wire.CloseEnded: wire.SessionEndedCode,
		wire.CloseTooLarge: wire.PayloadTooLarge, wire.CloseTooFast: wire.RateLimited,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			scripts := []connScript{func(p *schedulerConn) {
				p.answerStart(defaultLimits)
				if sent != "" {
					p.closeWith(code, wire.Error{Code: sent, Detail: "because"})
				} else {
					_ = p.ws.Close(websocket.StatusCode(code), "")
				}
			}}
			if code.Retry() {
				scripts = append(scripts, resumeAndEnd(0, 1))
			}
			s := startSession(t, newFakeScheduler(t, scripts...).config())
			if !code.Retry() {
				expectConnectionError(t, s.awaitEnd(), code, sent)
				_, err := s.Write([]byte("aa"))
				expectConnectionError(t, err, code, sent)
				return
			}
			expectConnectionError(t, next[client.Reconnecting](s).Err, code, sent)
			next[client.SessionResumed](s)
			s.endSession()
		})
	}
}

// If the close code is lost, the preceding error decides.
func TestFatalErrorWithoutCloseCode(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		p.send(wire.ErrorFrame{Error: wire.Error{Code: wire.Internal}, Fatal: true})
		p.drop()
	}, func(p *schedulerConn) {
		p.answerResume(0, 1)
		p.send(wire.ErrorFrame{Error: wire.Error{Code: wire.Forbidden}, Fatal: true})
		p.drop()
	})
	s := startSession(t, f.config())
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	expectConnectionError(t, s.awaitEnd(), 0, wire.Forbidden)
}

// A session that the scheduler no longer knows is over.
func TestResumeRefused(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() }, func(p *schedulerConn) {
		p.expect(&wire.SessionResume{})
		p.closeWith(wire.CloseNotFound, wire.Error{Code: wire.NotFound})
	})
	s := startSession(t, f.config())
	next[client.Reconnecting](s)
	expectConnectionError(t, s.awaitEnd(), wire.CloseNotFound, wire.NotFound)
}
