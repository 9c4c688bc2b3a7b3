package client_test

import (
	"errors"
	"io"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// listener takes the events of a session one by one.
type listener struct {
	*client.Session
	t    testing.TB
	next func() (client.Event, error, bool)
}

func start(t testing.TB, cfg client.Config) *listener {
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
	return &listener{Session: s, t: t, next: next}
}

// want takes the next event, which is of that type.
func want[E client.Event](l *listener) E {
	l.t.Helper()
	e, err, ok := l.next()
	got, is := e.(E)
	if !ok || err != nil || !is {
		l.t.Fatalf("got %T %+v (%v), want a %T", e, e, err, got)
	}
	return got
}

// wants takes the next event and compares it.
func wants[E client.Event](l *listener, e E) {
	l.t.Helper()
	if diff := cmp.Diff(e, want[E](l)); diff != "" {
		l.t.Fatalf("event (-want +got):\n%s", diff)
	}
}

// over takes the end of the events, and the error they end with.
func (l *listener) over() error {
	l.t.Helper()
	e, err, ok := l.next()
	if e != nil {
		l.t.Fatalf("got %T %+v, want the end", e, e)
	}
	if ok != (err != nil) {
		l.t.Fatalf("ended with ok %v and error %v", ok, err)
	}
	return err
}

// say writes each text as one frame.
func (l *listener) say(texts ...string) {
	l.t.Helper()
	for _, text := range texts {
		if _, err := io.WriteString(l, text); err != nil {
			l.t.Fatal(err)
		}
	}
}

// commit ends the utterance.
func (l *listener) commit() {
	l.t.Helper()
	if err := l.Commit(); err != nil {
		l.t.Fatal(err)
	}
}

// end ends the session and takes its last events.
func (l *listener) end() {
	l.t.Helper()
	if err := l.End(); err != nil {
		l.t.Fatal(err)
	}
	wants(l, client.SessionEnded{SessionID: "s-1"})
	if err := l.over(); err != nil {
		l.t.Fatal(err)
	}
}

// lost checks how a session ended.
func lost(t testing.TB, err error, code wire.CloseCode, said wire.Code) {
	t.Helper()
	var how *client.ConnectionError
	if !errors.As(err, &how) || how.Code != code {
		t.Fatalf("ended with %v, want close code %d", err, code)
	}
	var e *wire.Error
	if said != "" && (!errors.As(err, &e) || e.Code != said) {
		t.Fatalf("ended with %v, want %s in it", err, said)
	}
}

// committed and result are messages about an utterance, by its index, as short as can be.
func committed(index, first, last int64) wire.UtteranceCommitted {
	return wire.UtteranceCommitted{JobID: job(index), UtteranceIndex: index, FirstSeq: first, LastSeq: last, Reason: "manual"}
}

func result(seq, index int64) wire.SessionResult {
	return wire.SessionResult{Seq: seq, JobID: job(index), UtteranceIndex: index, AttemptID: 1}
}

func failure(seq, index int64) wire.ErrorFrame {
	return wire.ErrorFrame{Error: wire.Error{Code: wire.NoCapableNode, JobID: job(index)}, Seq: seq, UtteranceIndex: &index, Reason: "CANCELLED"}
}

func job(index int64) string { return "job-" + string(rune('a'+index)) }
