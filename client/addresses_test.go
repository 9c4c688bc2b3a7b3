package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// visits counts at which of several schedulers a session is.
type visits struct {
	mu  sync.Mutex
	all []int
}

func (v *visits) add(where int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, where)
}

// instances are schedulers of which each connection plays the next script, wherever it is made.
func instances(t *testing.T, count int, scripts ...script) (cfg client.Config, at *visits) {
	t.Helper()
	at = &visits{}
	made := 0
	var mu sync.Mutex
	for i := range count {
		f := newFake(t)
		f.always = func(p *peer) {
			mu.Lock()
			n := made
			made++
			mu.Unlock()
			at.add(i)
			if n >= len(scripts) {
				p.fail("was not expected")
			}
			scripts[n](p)
		}
		cfg.Start, cfg.Log = f.config().Start, f.config().Log
		cfg.URLs = append(cfg.URLs, f.server.URL)
	}
	return cfg, at
}

// absentees are addresses where no scheduler is.
func absentees(t *testing.T) []string {
	t.Helper()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	return []string{"http://" + dead.Addr().String(), elsewhere.URL}
}

// One that asks to be left alone for a while is left alone, and another is tried at once.
func TestRetryAfterHoldsForOneAddress(t *testing.T) {
	t.Parallel()
	cfg, at := instances(t, 2, func(p *peer) {
		p.begin(limits)
		p.cut()
	}, func(p *peer) {
		p.expect(&wire.SessionResume{})
		busy := wire.Errorf(wire.AllCandidatesFullOrFailed, "this instance is stopping").RetryIn(time.Minute)
		p.shut(wire.CloseDraining, *busy)
	}, func(p *peer) {
		p.resume(0, 1)
		p.end(wire.SessionEnded{SessionID: "s-1"})
	})
	began := time.Now()
	l := start(t, cfg)
	want[client.Reconnecting](l)
	want[client.SessionResumed](l)
	l.end()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the other address was tried after %v", took)
	}
	if at.all[1] == at.all[2] {
		t.Errorf("it was tried at %v", at.all)
	}
}

// TestSeveralAddresses: a scheduler that lives is found among addresses where none does, at the start and after a cut.
func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	for range 8 {
		cfg, _ := instances(t, 1,
			func(p *peer) { p.begin(limits); p.cut() },
			func(p *peer) { p.resume(0, 1); p.shut(wire.CloseDraining, wire.Error{Code: wire.Internal}) },
			ending(0, 1))
		cfg.URLs = append(cfg.URLs, absentees(t)...)
		l := start(t, cfg)
		want[client.Reconnecting](l)
		want[client.SessionResumed](l)
		want[client.Reconnecting](l)
		want[client.SessionResumed](l)
		l.end()
	}
}

// TestNowhere: when there is no scheduler at any address, that is an error at once.
func TestNowhere(t *testing.T) {
	t.Parallel()
	var how *client.ConnectionError
	if _, err := client.Start(t.Context(), client.Config{URLs: absentees(t)}); !errors.As(err, &how) {
		t.Errorf("Start: %v", err)
	}
}

// TestFirstAddressIsRandom: sessions that start together do not all go to one instance.
func TestFirstAddressIsRandom(t *testing.T) {
	t.Parallel()
	begun := map[int]bool{}
	for range 32 {
		cfg, at := instances(t, 2, func(p *peer) { p.begin(limits); p.end(wire.SessionEnded{SessionID: "s-1"}) })
		start(t, cfg).end()
		begun[at.all[0]] = true
	}
	if len(begun) != 2 {
		t.Error("all began at the same")
	}
}

// TestWhereToResume: after a cut, at the same; from one that is stopping, or asks to go, elsewhere.
func TestWhereToResume(t *testing.T) {
	t.Parallel()
	cfg, at := instances(t, 2,
		func(p *peer) { p.begin(limits); p.cut() },
		func(p *peer) { p.resume(0, 1); p.shut(wire.CloseDraining, wire.Error{Code: wire.Internal}) },
		func(p *peer) { p.resume(0, 1); p.send(wire.GoAway{ReconnectMS: 1}); _, _, _ = p.read() },
		ending(0, 1))
	l := start(t, cfg)
	for range 3 {
		want[client.Reconnecting](l)
		want[client.SessionResumed](l)
	}
	l.end()
	if v := at.all; v[1] != v[0] || v[2] == v[1] || v[3] == v[2] {
		t.Errorf("was at %v", v)
	}
}
