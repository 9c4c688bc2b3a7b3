package client_test

import (
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestMain checks that no session leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testSession is a session whose events are read one by one.
type testSession struct {
	*client.Session
	t    testing.TB
	pull func() (client.Event, error, bool)
}

func startSession(t testing.TB, cfg client.Config) *testSession {
	t.Helper()
	s, err := client.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(s.Events())
	t.Cleanup(func() {
		_ = s.Close()
		stop()
	})
	return &testSession{Session: s, t: t, pull: next}
}

// next returns the next event, which must be of the given type.
func next[E client.Event](s *testSession) E {
	s.t.Helper()
	e, err, ok := s.pull()
	got, is := e.(E)
	if !ok || err != nil || !is {
		s.t.Fatalf("got %T %+v (%v), want a %T", e, e, err, got)
	}
	return got
}

// expect compares the next event.
func expect[E client.Event](s *testSession, e E) {
	s.t.Helper()
	if diff := cmp.Diff(e, next[E](s)); diff != "" {
		s.t.Fatalf("event (-want +got):\n%s", diff)
	}
}

// awaitEnd expects the end of the events and returns their error.
func (s *testSession) awaitEnd() error {
	s.t.Helper()
	e, err, ok := s.pull()
	if e != nil {
		s.t.Fatalf("got %T %+v, want the end", e, e)
	}
	if ok != (err != nil) {
		s.t.Fatalf("ended with ok %v and error %v", ok, err)
	}
	return err
}

// write writes each text as one frame.
func (s *testSession) write(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if _, err := io.WriteString(s, text); err != nil {
			s.t.Fatal(err)
		}
	}
}

// commit ends the utterance.
func (s *testSession) commit() {
	s.t.Helper()
	if err := s.Commit(); err != nil {
		s.t.Fatal(err)
	}
}

// endSession ends the session and reads its last events.
func (s *testSession) endSession() {
	s.t.Helper()
	if err := s.End(); err != nil {
		s.t.Fatal(err)
	}
	expect(s, client.SessionEnded{SessionID: "s-1"})
	if err := s.awaitEnd(); err != nil {
		s.t.Fatal(err)
	}
}

// expectConnectionError checks the close code and the error of the scheduler.
func expectConnectionError(t testing.TB, err error, closeCode wire.CloseCode, code wire.Code) {
	t.Helper()
	var lost *client.ConnectionError
	if !errors.As(err, &lost) || lost.Code != closeCode {
		t.Fatalf("ended with %v, want close code %d", err, closeCode)
	}
	var e *wire.Error
	if code != "" && (!errors.As(err, &e) || e.Code != code) {
		t.Fatalf("ended with %v, want %s in it", err, code)
	}
}

// committedFrame, resultFrame and failureFrame are minimal messages about an utterance, by its index.
func committedFrame(index, first, last int64) wire.UtteranceCommitted {
	return wire.UtteranceCommitted{JobID: jobID(index), UtteranceIndex: index, FirstSeq: first, LastSeq: last, Reason: "manual"}
}

func resultFrame(seq, index int64) wire.SessionResult {
	return wire.SessionResult{Seq: seq, JobID: jobID(index), UtteranceIndex: index, AttemptID: 1}
}

// resultOfFrames is the result of an utterance that consists of these audio frames.
func resultOfFrames(seq, index, first, last int64) wire.SessionResult {
	r := resultFrame(seq, index)
	r.FirstSeq, r.LastSeq = first, last
	return r
}

func failureFrame(seq, index int64) wire.ErrorFrame {
	return wire.ErrorFrame{Error: wire.Error{Code: wire.NoCapableNode, JobID: jobID(index)}, Seq: seq, UtteranceIndex: &index, Reason: "CANCELLED"}
}

func jobID(index int64) string { return "job-" + string(rune('a'+index)) }

var errRefused = errors.New("the connection is refused")

// gatedTransport refuses requests unless they are allowed.
type gatedTransport struct {
	http.RoundTripper
	allow func() bool
}

// RoundTrip implements http.RoundTripper.
func (r gatedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.allow() {
		return nil, errRefused
	}
	return r.RoundTripper.RoundTrip(req)
}

func gatedClient(t http.RoundTripper, may func() bool) *http.Client {
	return &http.Client{Transport: gatedTransport{t, may}}
}

// testWithFakeTime runs a test in which time advances only while all goroutines wait.
func testWithFakeTime(t *testing.T, test func(*testing.T)) {
	t.Parallel()
	synctest.Test(t, test)
}

// readAudio reads audio until the session ends.
func readAudio(p *schedulerConn, each func(audio []byte)) {
	for {
		typ, body, err := p.read()
		if err != nil {
			return
		}
		if typ == 2 {
			each(body)
		} else if kind, _ := wire.TypeOf(body); kind == "session_end" {
			p.send(wire.SessionEnded{SessionID: "s-1"})
			_ = p.ws.Close(1000, "")
			return
		}
	}
}

// goAwayText returns the text of an error about a GoAway; empty if it is another error.
func goAwayText(err error) string {
	if err != nil && strings.Contains(err.Error(), "asked to reconnect") {
		return err.Error()
	}
	return ""
}
