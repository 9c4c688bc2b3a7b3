package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestConversation: audio is counted, an utterance ended, and everything that can come does.
func TestConversation(t *testing.T) {
	t.Parallel()
	totals := wire.SessionEnded{SessionID: "s-1", Utterances: 2, Results: 1, Errors: 1, AudioMS: 40}
	f := newFake(t, func(p *peer) {
		if got := p.request.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("Authorization is %q", got)
		}
		if got := p.request.URL.Path; got != "/ws/session" {
			t.Errorf("the path is %q", got)
		}
		if got := p.accept().Subprotocol(); got != wire.Subprotocol {
			t.Errorf("the subprotocol is %q", got)
		}
		got := p.begin(limits)
		if diff := cmp.Diff(wire.SessionStart{
			ResumeToken: got.ResumeToken, Langs: []string{"en", "es"}, Partials: true, Audio: wire.SessionAudio{Framing: wire.FramingNumbered},
		}, got); diff != "" {
			t.Errorf("session_start (-want +got):\n%s", diff)
		}
		p.audio("aaaa", "bb")
		p.final(3)
		p.send(wire.AudioAck{Seq: 3}, committed(0, 1, 3))
		p.audio("cc")
		p.final(5)
		p.send(committed(1, 4, 5))
		p.send(wire.SessionPartial{JobID: job(0), AttemptID: 1, Rev: 1, TextTgt: "ho"})
		p.send(wire.Warning{Code: "LATE", Detail: "too late"}, wire.ErrorFrame{Error: wire.Error{Code: wire.InvalidRequest, Detail: "no"}, ReplyTo: "cancel"})
		p.send(result(1, 0))
		p.speak(job(0), 0, false, "hello")
		p.speak(job(0), 1, true, "")
		p.send(failure(2, 1))
		p.end(totals)
	})
	cfg := f.config()
	cfg.Token, cfg.Start.Partials = "secret", true
	l := start(t, cfg)
	if l.ID() != "s-1" || l.Limits() != limits {
		t.Errorf("the session is %q with %+v", l.ID(), l.Limits())
	}
	l.say("aaaa", "bb")
	l.commit()
	l.commit() // of nothing: nothing is sent
	wants(l, client.UtteranceCommitted(committed(0, 1, 3)))
	l.say("cc")
	l.commit()
	wants(l, client.UtteranceCommitted(committed(1, 4, 5)))
	wants(l, client.PartialResult{JobID: job(0), AttemptID: 1, Rev: 1, TextTgt: "ho"})
	wants(l, client.Warning{Code: "LATE", Detail: "too late"})
	wants(l, client.Warning{Code: "INVALID_REQUEST", Detail: "no", ReplyTo: "cancel"})
	wants(l, client.Result(result(1, 0)))
	usual := wire.AudioFormat{}.OrDefault()
	wants(l, client.SpeechChunk{JobID: job(0), AttemptID: 1, Format: usual, Audio: []byte("hello")})
	wants(l, client.SpeechChunk{JobID: job(0), AttemptID: 1, Chunk: 1, Last: true, Format: usual, Audio: []byte{}})
	wants(l, client.UtteranceFailed{Seq: 2, UtteranceIndex: 1, JobID: job(1), Reason: "CANCELLED", Err: &wire.Error{Code: wire.NoCapableNode, JobID: job(1)}})
	if err := errors.Join(l.End(), l.End()); err != nil {
		t.Error(err)
	}
	if _, err := l.Write([]byte("dd")); !errors.Is(err, client.ErrEnded) {
		t.Errorf("writing after the end: %v", err)
	}
	wants(l, client.SessionEnded(totals))
	if err := l.over(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := errors.Join(l.Commit(), l.Update(wire.SessionUpdate{})); !errors.Is(err, client.ErrEnded) {
		t.Errorf("after it is over: %v", err)
	}
	for e, err := range l.Events() {
		t.Errorf("after it is over: %v, %v", e, err)
	}
}

// TestNames: what an utterance is called goes with its first frame, and an open one is ended before.
func TestNames(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		p.audio("aa")
		p.final(2)
		var c wire.AudioChunk
		p.expect(&c)
		want := wire.AudioChunk{Seq: 3, UtteranceID: "u", SrcLang: "es", RequestID: "r", Data: []byte("bb")}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("the first frame (-want +got):\n%s", diff)
		}
		p.audio("cc")
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
		p.audio("dd")
		p.end(wire.SessionEnded{SessionID: "s-1"})
	})
	l := start(t, f.config())
	l.say("aa")
	err := l.Begin(wire.UtteranceStart{UtteranceID: "u", SrcLang: "es", RequestID: "r"})
	l.say("bb", "cc")
	err = errors.Join(err, l.Cancel(wire.SessionCancel{}))
	l.commit()                                             // it was given up
	err = errors.Join(err, l.Cancel(wire.SessionCancel{})) // there is none
	err = errors.Join(err, l.Update(wire.SessionUpdate{SrcLang: "es"}), l.Cancel(wire.SessionCancel{JobID: "j"}))
	err = errors.Join(err, l.Begin(wire.UtteranceStart{UtteranceID: "v"}), l.Cancel(wire.SessionCancel{})) // no name is left over
	if err != nil {
		t.Fatal(err)
	}
	l.say("dd")
	l.end()
}

// TestFrames: audio is cut at 200 ms, at the limit of a frame, and never within a sample.
func TestFrames(t *testing.T) {
	t.Parallel()
	sized := func(bytes int64) wire.SessionLimits { l := limits; l.FrameBytes = bytes; return l }
	for name, c := range map[string]struct {
		format wire.SessionAudio
		limits wire.SessionLimits
		writes []int
		want   []int
	}{
		"200 ms":         {wire.SessionAudio{}, limits, []int{14000}, []int{6400, 6400, 1200}},
		"stereo":         {wire.SessionAudio{SampleRate: 8000, Channels: 2}, limits, []int{6404}, []int{6400, 4}},
		"frame limit":    {wire.SessionAudio{}, sized(1024 + 400), []int{700}, []int{300, 300, 100}},
		"half a sample":  {wire.SessionAudio{Channels: 2}, limits, []int{3, 3, 3, 3}, []int{4, 4, 4}},
		"as it is given": {wire.SessionAudio{}, limits, []int{320, 320}, []int{320, 320}},
		"packets":        {wire.SessionAudio{Encoding: "opus"}, limits, []int{7001, 3}, []int{7001, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(p *peer) {
				p.begin(c.limits)
				for i, n := range c.want {
					if _, body, err := p.read(); err != nil || len(body) != n {
						p.fail("frame %d has %d bytes (%v), want %d", i, len(body), err, n)
					}
				}
				p.end(wire.SessionEnded{SessionID: "s-1"})
			})
			cfg := f.config()
			cfg.Start.Audio = c.format
			l := start(t, cfg)
			for _, n := range c.writes {
				if got, err := l.Write(make([]byte, n)); got != n || err != nil {
					t.Fatalf("wrote %d of %d bytes: %v", got, n, err)
				}
			}
			if c.format.Encoding == "opus" {
				if _, err := l.Write(make([]byte, wire.MaxFrame)); err == nil {
					t.Error("a packet of any size was taken")
				}
			}
			l.end()
		})
	}
}

// TestOnlyNewPartialsAreShown: each is newer than the one before, and none comes after the result.
func TestOnlyNewPartialsAreShown(t *testing.T) {
	t.Parallel()
	partial := func(index int64, attempt int, rev int64) wire.SessionPartial {
		return wire.SessionPartial{JobID: job(index), UtteranceIndex: index, AttemptID: attempt, Rev: rev}
	}
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		p.send(partial(0, 1, 2), partial(0, 1, 1), partial(0, 1, 2), partial(1, 1, 1), partial(0, 2, 1), partial(0, 1, 9), partial(0, 2, 3))
		p.send(result(1, 0), partial(0, 3, 1), partial(1, 1, 2))
		p.end(wire.SessionEnded{SessionID: "s-1"})
	})
	l := start(t, f.config())
	for _, want := range []wire.SessionPartial{partial(0, 1, 2), partial(1, 1, 1), partial(0, 2, 1), partial(0, 2, 3)} {
		wants(l, client.PartialResult(want))
	}
	wants(l, client.Result(result(1, 0)))
	wants(l, client.PartialResult(partial(1, 1, 2)))
	l.end()
}

// TestClose ends a session at once, whoever waits for it.
func TestClose(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		_, _, _ = p.read()
		close(gone)
	})
	l := start(t, f.config())
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	<-gone
	if err := l.over(); !errors.Is(err, client.ErrClosed) {
		t.Errorf("the events end with %v", err)
	}
	if _, err := l.Write([]byte("aa")); !errors.Is(err, client.ErrClosed) {
		t.Errorf("writing: %v", err)
	}
}

// TestAddresses that can be used, and those that cannot, which are an error that repeats nothing secret.
func TestAddresses(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	f := newFake(t)
	f.always = func(p *peer) { asked <- p.request.URL.Path; p.begin(limits); _, _, _ = p.read() }
	http, ws := f.server.URL, strings.Replace(f.server.URL, "http", "ws", 1)
	for url, want := range map[string]string{
		ws: "/ws/session", ws + "/ws/session": "/ws/session", ws + "/some/where": "/some/where",
		http + "/": "/ws/session", http + "/base": "/base/ws/session", http + "/base/ws/session": "/base/ws/session",
	} {
		cfg := f.config()
		cfg.URL = url
		_ = start(t, cfg).Close()
		if got := <-asked; got != want {
			t.Errorf("%s leads to %s, want %s", url, got, want)
		}
	}
	for _, url := range []string{"", "127.0.0.1:5010", "ftp://127.0.0.1", "http://", "http://me:hush@127.0.0.1", "http://hush\x7f"} {
		_, err := client.Start(t.Context(), client.Config{URL: url})
		if err == nil || !strings.Contains(err.Error(), "Config.") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", url, err)
		}
	}
	gone := newFake(t)
	gone.server.Close()
	_, err := client.Start(t.Context(), client.Config{URL: gone.server.URL + "?key=hush"})
	var how *client.ConnectionError
	if !errors.As(err, &how) || strings.Contains(err.Error(), "hush") {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestRefused: what a scheduler says against a session is what Start returns.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script script
		code   wire.CloseCode
		status int
		said   wire.Code
	}{
		"by HTTP": {status: http.StatusUnauthorized, said: wire.Unauthorized, script: func(p *peer) {
			p.answer.WriteHeader(http.StatusUnauthorized)
			_, _ = p.answer.Write([]byte(`{"error":"UNAUTHORIZED","detail":"no token"}`))
		}},
		"by a close": {code: wire.CloseForbidden, said: wire.Forbidden, script: func(p *peer) {
			p.expect(&wire.SessionStart{})
			p.shut(wire.CloseForbidden, wire.Error{Code: wire.Forbidden})
		}},
		"by an answer": {code: wire.CloseBadMessage, said: wire.InvalidRequest, script: func(p *peer) {
			p.expect(&wire.SessionStart{})
			p.send(wire.ErrorFrame{Error: wire.Error{Code: wire.InvalidRequest}, ReplyTo: "session_start"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := client.Start(t.Context(), newFake(t, c.script).config())
			lost(t, err, c.code, c.said)
			var how *client.ConnectionError
			if errors.As(err, &how); how.Status != c.status {
				t.Errorf("the status is %d, want %d", how.Status, c.status)
			}
		})
	}
}

// TestNotYet: a scheduler that is stopping, or lost, before it began the session is asked again.
func TestNotYet(t *testing.T) {
	t.Parallel()
	lostStart := make(chan wire.SessionStart, 1) // from the connection that is cut to the one after it
	f := newFake(t,
		func(p *peer) { p.answer.WriteHeader(http.StatusServiceUnavailable) },
		func(p *peer) {
			p.expect(&wire.SessionStart{})
			p.shut(wire.CloseDraining, wire.Error{Code: wire.SchedulerDependencyDown})
		},
		func(p *peer) {
			var said wire.SessionStart
			p.expect(&said)
			lostStart <- said
			p.cut()
		},
		func(p *peer) {
			said := <-lostStart
			if again := p.begin(limits); again.ResumeToken != said.ResumeToken || len(said.ResumeToken) < 16 {
				p.fail("the start that was lost had the secret %q, the next has %q", said.ResumeToken, again.ResumeToken)
			}
			p.end(wire.SessionEnded{SessionID: "s-1"})
		},
	)
	start(t, f.config()).end()

	never := make([]script, 5)
	for i := range never {
		never[i] = func(p *peer) {
			p.expect(&wire.SessionStart{})
			p.shut(wire.CloseDraining, wire.Error{Code: wire.Internal})
		}
	}
	_, err := client.Start(t.Context(), newFake(t, never...).config())
	lost(t, err, wire.CloseDraining, wire.Internal)
}

// TestUnreadable: what cannot be read ends the session; what is not known does not.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"type":"result","seq":"one"}`, `nonsense`} {
		f := newFake(t, func(p *peer) {
			p.begin(limits)
			p.write(1, []byte(`{"type":"news_of_tomorrow"}`))
			p.write(1, []byte(text))
			_, _, _ = p.read()
		})
		l := start(t, f.config())
		var e *wire.Error
		if err := l.over(); !errors.As(err, &e) {
			t.Errorf("%s: ended with %v", text, err)
		}
	}
}
