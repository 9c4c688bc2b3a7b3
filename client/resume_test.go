package client_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// ending is the script of a connection on which the session only ends.
func ending(lastSeq, nextAudio int64) script {
	return func(p *peer) {
		p.resume(lastSeq, nextAudio)
		p.end(wire.SessionEnded{SessionID: "s-1"})
	}
}

// TestCutWhileSpeaking: audio is sent again from exactly where it is asked for, wherever that is, and then goes on.
func TestCutWhileSpeaking(t *testing.T) {
	t.Parallel()
	words := []string{"aa", "bb", "cc", "dd"}
	for from := int64(1); from <= 5; from++ {
		cut := make(chan struct{})
		f := newFake(t, func(p *peer) {
			p.begin(limits)
			p.audio(words...)
			p.cut()
			close(cut)
		}, func(p *peer) {
			<-cut
			p.resume(0, from)
			p.audio(words[from-1:]...)
			p.audio("ee")
			p.final(6)
			p.end(wire.SessionEnded{SessionID: "s-1"})
		})
		l := start(t, f.config())
		l.say(words...)
		want[client.Reconnecting](l)
		l.say("ee") // while nobody is there
		l.commit()
		wants(l, client.SessionResumed{Recovered: true, ResentFrames: 5 - from})
		l.end()
	}
}

// TestCutBeforeTheResult: what came is not told again, what did not come is, and audio is kept until its result.
func TestCutBeforeTheResult(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		p.audio("aa")
		p.final(2)
		p.audio("bb")
		p.final(4)
		p.send(committed(0, 1, 2), committed(1, 3, 4), result(1, 0))
		p.send(wire.SessionPartial{JobID: job(1), UtteranceIndex: 1, AttemptID: 1, Rev: 3})
		p.speak(job(0), 0, false, "x")
		p.cut()
	}, func(p *peer) {
		p.resume(1, 3)
		p.audio("bb")
		p.final(4)
		p.send(result(1, 0), committed(0, 1, 2), committed(1, 3, 4))
		p.send(wire.SessionPartial{JobID: job(1), UtteranceIndex: 1, AttemptID: 1, Rev: 3})
		p.speak(job(0), 0, false, "x")
		p.speak(job(0), 1, true, "y")
		p.send(failure(2, 1), failure(2, 1), result(3, 2))
		p.cut()
	}, ending(3, 5))
	l := start(t, f.config())
	l.say("aa")
	l.commit()
	l.say("bb")
	l.commit()
	wants(l, client.UtteranceCommitted(committed(0, 1, 2)))
	wants(l, client.UtteranceCommitted(committed(1, 3, 4)))
	wants(l, client.Result(result(1, 0)))
	want[client.PartialResult](l)
	want[client.SpeechChunk](l)
	want[client.Reconnecting](l)
	wants(l, client.SessionResumed{Recovered: true, ResentFrames: 2})
	wants(l, client.SpeechChunk{JobID: job(0), AttemptID: 1, Chunk: 1, Last: true, Format: wire.AudioFormat{}.OrDefault(), Audio: []byte("y")})
	if got := want[client.UtteranceFailed](l); got.UtteranceIndex != 1 {
		t.Errorf("got %+v", got)
	}
	wants(l, client.Result(result(3, 2)))
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	l.end()
}

// TestCutDuringResume: a connection that does not live to say so is one more that was lost.
func TestCutDuringResume(t *testing.T) {
	t.Parallel()
	f := newFake(t,
		func(p *peer) { p.begin(limits); p.audio("aa"); p.cut() },
		func(p *peer) { p.accept(); p.cut() },
		func(p *peer) { p.expect(&wire.SessionResume{}); p.cut() },
		func(p *peer) { p.answer.WriteHeader(503) },
		func(p *peer) { p.resume(0, 1); p.cut() },
		func(p *peer) { p.resume(0, 1); p.audio("aa"); p.end(wire.SessionEnded{SessionID: "s-1"}) },
	)
	l := start(t, f.config())
	l.say("aa")
	want[client.Reconnecting](l)
	wants(l, client.SessionResumed{Recovered: true, ResentFrames: 1})
	want[client.Reconnecting](l)
	wants(l, client.SessionResumed{Recovered: true, ResentFrames: 1})
	l.end()
}

// TestEverythingIsSaidAgain: what is no audio keeps its place among it, and a name is not said of an utterance that ended.
func TestEverythingIsSaidAgain(t *testing.T) {
	t.Parallel()
	named := func(p *peer, id string, seq int64) {
		var c wire.AudioChunk
		if p.expect(&c); c.UtteranceID != id || c.Seq != seq {
			p.fail("got %+v, want the utterance %q at %d", c, id, seq)
		}
	}
	all := func(p *peer) {
		p.expect(&wire.SessionUpdate{})
		p.audio("bb")
		p.final(5)
		named(p, "v", 6)
		p.expect(&wire.SessionCancel{})
		p.expect(&wire.SessionEnd{})
	}
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		named(p, "u", 1)
		p.audio("aa")
		p.final(3)
		p.send(committed(0, 1, 3))
		all(p)
		p.cut()
	}, func(p *peer) {
		p.resume(0, 1)
		named(p, "u", 1) // whoever has the session now may have lost the name too
		p.audio("aa")
		p.final(3)
		all(p)
		p.send(result(1, 0))
		p.cut()
	}, func(p *peer) {
		p.resume(1, 4)
		all(p)
		p.cut()
	}, func(p *peer) {
		p.resume(1, 7)
		p.expect(&wire.SessionCancel{})
		p.end(wire.SessionEnded{SessionID: "s-1"})
	})
	l := start(t, f.config())
	err := l.Begin(wire.UtteranceStart{UtteranceID: "u"})
	l.say("uu", "aa")
	l.commit()
	want[client.UtteranceCommitted](l)
	err = errors.Join(err, l.Update(wire.SessionUpdate{SrcLang: "es"}))
	l.say("bb")
	err = errors.Join(err, l.Begin(wire.UtteranceStart{UtteranceID: "v"}))
	l.say("vv")
	err = errors.Join(err, l.Cancel(wire.SessionCancel{}), l.End())
	if err != nil {
		t.Fatal(err)
	}
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	want[client.Result](l)
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	l.end()
}

// TestLostMessages: the program is told that some will not come, and those that do are not taken for old ones.
func TestLostMessages(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		p.send(result(1, 0), result(2, 1), result(3, 2))
		p.cut()
	}, func(p *peer) {
		p.resumeWith(3, wire.SessionResumed{LastSeq: 9, NextAudioSeq: 1})
		p.send(result(8, 7), result(9, 8))
		p.cut()
	}, func(p *peer) {
		p.resumeWith(9, wire.SessionResumed{LastSeq: 0, NextAudioSeq: 1})
		p.send(result(1, 9))
		p.end(wire.SessionEnded{SessionID: "s-1"})
	})
	l := start(t, f.config())
	for _, r := range []wire.SessionResult{result(1, 0), result(2, 1), result(3, 2)} {
		wants(l, client.Result(r))
	}
	want[client.Reconnecting](l)
	wants(l, client.SessionResumed{Recovered: false})
	wants(l, client.Result(result(8, 7)))
	wants(l, client.Result(result(9, 8)))
	want[client.Reconnecting](l)
	wants(l, client.SessionResumed{Recovered: false})
	wants(l, client.Result(result(1, 9)))
	l.end()
}

// TestAudioThatIsNotThere: the session cannot go on when audio is asked for that is gone, or that never was.
func TestAudioThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ask  int64
		gone bool
	}{{1, true}, {2, true}, {3, false}, {4, false}, {5, false}} {
		f := newFake(t, func(p *peer) {
			p.begin(limits)
			p.audio("aa")
			p.final(2)
			p.audio("bb")
			p.send(committed(0, 1, 2), result(1, 0))
			p.cut()
		}, func(p *peer) {
			p.resume(1, c.ask)
			_, _, _ = p.read()
			p.cut()
		})
		l := start(t, f.config())
		l.say("aa")
		l.commit()
		l.say("bb")
		want[client.UtteranceCommitted](l)
		want[client.Result](l)
		want[client.Reconnecting](l)
		if c.ask == 3 || c.ask == 4 {
			want[client.SessionResumed](l)
			_ = l.Close()
			continue
		}
		if err := l.over(); errors.Is(err, client.ErrAudioDiscarded) != c.gone || err == nil {
			t.Errorf("asked for %d: ended with %v", c.ask, err)
		}
	}
}

// TestUnknownEnd: where a cut swallowed where an utterance ended, the next one tells.
func TestUnknownEnd(t *testing.T) {
	t.Parallel()
	for name, told := range map[string][]wire.Frame{
		"known before":     {committed(1, 3, 4), result(1, 0)},
		"known after":      {result(1, 0), committed(1, 3, 4)},
		"told afterwards":  {result(1, 0), committed(0, 1, 2)},
		"it was skipped":   {committed(0, 1, 2), result(2, 1)},
		"a later one ends": {result(1, 0), result(2, 1), committed(2, 3, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(p *peer) {
				p.begin(limits)
				p.audio("aa")
				p.final(2)
				p.audio("bb")
				p.final(4)
				p.send(told...)
				p.cut()
			}, func(p *peer) {
				var r wire.SessionResume
				p.expect(&r)
				p.send(wire.SessionResumed{Recovered: true, NextAudioSeq: 2})
				_, _, _ = p.read()
			})
			l := start(t, f.config())
			l.say("aa")
			l.commit()
			l.say("bb")
			l.commit()
			for e, err := range l.Events() {
				if err != nil {
					if !errors.Is(err, client.ErrAudioDiscarded) {
						t.Errorf("ended with %v", err)
					}
					return
				}
				if _, ok := e.(client.SessionResumed); ok {
					t.Error("audio of an utterance that is over was kept")
					_ = l.Close()
				}
			}
		})
	}
}

// TestCloses: after some codes the session goes on, after others it is over, and the error says why.
func TestCloses(t *testing.T) {
	t.Parallel()
	for code, said := range map[wire.CloseCode]wire.Code{
		1000: "", 1001: "", 1011: "",
		wire.CloseInternal: wire.Internal, wire.CloseDraining: wire.SchedulerDependencyDown, wire.CloseSlow: wire.RateLimited,
		wire.CloseBadMessage: wire.InvalidRequest, wire.CloseUnauthorized: wire.Unauthorized, wire.CloseForbidden: wire.Forbidden,
		wire.CloseNotFound: wire.NotFound, wire.CloseIdle: wire.DeadlineExceeded, wire.CloseReplaced: wire.StaleEpoch,
		wire.CloseTooLarge: wire.PayloadTooLarge, wire.CloseTooFast: wire.RateLimited,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			scripts := []script{func(p *peer) {
				p.begin(limits)
				if said != "" {
					p.shut(code, wire.Error{Code: said, Detail: "because"})
				} else {
					_ = p.conn.Close(websocket.StatusCode(code), "")
				}
			}}
			if code.Retry() {
				scripts = append(scripts, ending(0, 1))
			}
			l := start(t, newFake(t, scripts...).config())
			if !code.Retry() {
				lost(t, l.over(), code, said)
				_, err := l.Write([]byte("aa"))
				lost(t, err, code, said)
				return
			}
			lost(t, want[client.Reconnecting](l).Err, code, said)
			want[client.SessionResumed](l)
			l.end()
		})
	}
}

// TestFinalWords: where the close itself is lost, the error before it decides.
func TestFinalWords(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		p.send(wire.ErrorFrame{Error: wire.Error{Code: wire.Internal}, Fatal: true})
		p.cut()
	}, func(p *peer) {
		p.resume(0, 1)
		p.send(wire.ErrorFrame{Error: wire.Error{Code: wire.Forbidden}, Fatal: true})
		p.cut()
	})
	l := start(t, f.config())
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	lost(t, l.over(), 0, wire.Forbidden)
}

// TestResumeRefused: a session that is not known any more is over.
func TestResumeRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) { p.begin(limits); p.cut() }, func(p *peer) {
		p.expect(&wire.SessionResume{})
		p.shut(wire.CloseNotFound, wire.Error{Code: wire.NotFound})
	})
	l := start(t, f.config())
	want[client.Reconnecting](l)
	lost(t, l.over(), wire.CloseNotFound, wire.NotFound)
}
