package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// connLog records to which of several schedulers the connections were made.
type connLog struct {
	mu  sync.Mutex
	all []int
}

func (v *connLog) add(where int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, where)
}

// startInstances starts schedulers. Each connection runs the next script, whichever scheduler it is made to.
func startInstances(t *testing.T, count int, scripts ...connScript) (cfg client.Config, at *connLog) {
	t.Helper()
	at = &connLog{}
	made := 0
	var mu sync.Mutex
	for i := range count {
		f := newFakeScheduler(t)
		f.always = func(p *schedulerConn) {
			mu.Lock()
			n := made
			made++
			mu.Unlock()
			at.add(i)
			if n >= len(scripts) {
				p.fail("unexpected connection")
			}
			scripts[n](p)
		}
		cfg.Start, cfg.Log = f.config().Start, f.config().Log
		cfg.URLs = append(cfg.URLs, f.server.URL)
	}
	return cfg, at
}

// absentEndpoints returns addresses without a scheduler.
func absentEndpoints(t *testing.T) []string {
	t.Helper()
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	return []string{"http://127.0.0.1:1", elsewhere.URL} // nothing listens at port 1
}

// An instance that asks to stay away is avoided, and another one is tried at once.
func TestRetryAfterHoldsForOneEndpoint(t *testing.T) {
	t.Parallel()
	cfg, at := startInstances(t, 2, func(p *schedulerConn) {
		p.answerStart(defaultLimits)
		p.drop()
	}, func(p *schedulerConn) {
		p.expect(&wire.SessionResume{})
		busy := wire.Errorf(wire.AllCandidatesFullOrFailed, "this instance is stopping").RetryIn(time.Minute)
		p.closeWith(wire.CloseDraining, *busy)
	}, func(p *schedulerConn) {
		p.answerResume(0, 1)
		p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
	})
	began := time.Now()
	s := startSession(t, cfg)
	next[client.Reconnecting](s)
	next[client.SessionResumed](s)
	s.endSession()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the other endpoint was tried after %v", took)
	}
	if at.all[1] == at.all[2] {
		t.Errorf("the connections were made to %v", at.all)
	}
}

// A scheduler is found among absent endpoints, at the start and after a lost connection.
func TestFindsLiveEndpoint(t *testing.T) {
	t.Parallel()
	for range 8 {
		cfg, _ := startInstances(t, 1,
			func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() },
			func(p *schedulerConn) {
				p.answerResume(0, 1)
				p.closeWith(wire.CloseDraining, wire.Error{Code: wire.Internal})
			},
			resumeAndEnd(0, 1))
		cfg.URLs = append(cfg.URLs, absentEndpoints(t)...)
		s := startSession(t, cfg)
		next[client.Reconnecting](s)
		next[client.SessionResumed](s)
		next[client.Reconnecting](s)
		next[client.SessionResumed](s)
		s.endSession()
	}
}

func TestStartFailsIfAllEndpointsAreAbsent(t *testing.T) {
	t.Parallel()
	var lost *client.ConnectionError
	if _, err := client.Start(t.Context(), client.Config{URLs: absentEndpoints(t)}); !errors.As(err, &lost) {
		t.Errorf("Start: %v", err)
	}
}

func TestFirstEndpointIsRandom(t *testing.T) {
	t.Parallel()
	begun := map[int]bool{}
	for range 32 {
		cfg, at := startInstances(t, 2, func(p *schedulerConn) { p.answerStart(defaultLimits); p.answerEnd(wire.SessionEnded{SessionID: "s-1"}) })
		startSession(t, cfg).endSession()
		begun[at.all[0]] = true
	}
	if len(begun) != 2 {
		t.Error("all sessions began at the same endpoint")
	}
}

// After a lost connection the session is resumed at the same endpoint, after CloseDraining or GoAway at another one.
func TestEndpointAfterLostConnection(t *testing.T) {
	t.Parallel()
	cfg, at := startInstances(t, 2,
		func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() },
		func(p *schedulerConn) {
			p.answerResume(0, 1)
			p.closeWith(wire.CloseDraining, wire.Error{Code: wire.Internal})
		},
		func(p *schedulerConn) { p.answerResume(0, 1); p.send(wire.GoAway{ReconnectMS: 1}); _, _, _ = p.read() },
		resumeAndEnd(0, 1))
	s := startSession(t, cfg)
	for range 3 {
		next[client.Reconnecting](s)
		next[client.SessionResumed](s)
	}
	s.endSession()
	if v := at.all; v[1] != v[0] || v[2] == v[1] || v[3] == v[2] {
		t.Errorf("the connections were made to %v", v)
	}
}

// Errors about invalid URLs must not repeat secrets.
func TestURLs(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	f := newFakeScheduler(t)
	f.always = func(p *schedulerConn) { asked <- p.request.URL.Path; p.answerStart(defaultLimits); _, _, _ = p.read() }
	http, ws := f.server.URL, strings.Replace(f.server.URL, "http", "ws", 1)
	for url, want := range map[string]string{
		ws: "/ws/session", ws + "/ws/session": "/ws/session", ws + "/some/where": "/some/where",
		http + "/": "/ws/session", http + "/base": "/base/ws/session", http + "/base/ws/session": "/base/ws/session",
	} {
		cfg := f.config()
		cfg.URL = url
		_ = startSession(t, cfg).Close()
		if got := <-asked; got != want {
			t.Errorf("%s leads to %s, want %s", url, got, want)
		}
	}
	for _, url := range []string{"", "127.0.0.1:5010", "ftp://127.0.0.1", "http://", "http://me:secret@127.0.0.1", "http://secret\x7f"} {
		_, err := client.Start(t.Context(), client.Config{URL: url})
		if err == nil || !strings.Contains(err.Error(), "Config.") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	_, err := client.Start(t.Context(), client.Config{URL: "http://127.0.0.1:1?key=secret"}) // where nothing listens
	var lost *client.ConnectionError
	if !errors.As(err, &lost) || strings.Contains(err.Error(), "secret") {
		t.Errorf("closed port: %v", err)
	}
}
