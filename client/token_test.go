package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRenewedToken: a session lasts longer than a token. Each time it connects again it asks for another, and again when it
// got none.
func TestRenewedToken(t *testing.T) {
	t.Parallel()
	holding := func(token string, then script) script {
		return func(p *peer) {
			if got := p.request.Header.Get("Authorization"); got != "Bearer "+token {
				t.Errorf("connection %d came with %q, want %s", p.number, got, token)
			}
			then(p)
		}
	}
	for given, renewed := range map[string][]string{"a": {"", "b", "c"}, "": {"a", "", "b", "c"}} {
		f := newFake(t,
			holding("a", func(p *peer) { p.begin(limits); p.cut() }),
			holding("b", func(p *peer) { p.resume(0, 1); p.cut() }),
			holding("c", ending(0, 1)))
		cfg := f.config()
		cfg.Token = given
		cfg.TokenSource = func(context.Context) (token string, err error) {
			if token, renewed = renewed[0], renewed[1:]; token == "" {
				err = errors.New("not now")
			}
			return token, err
		}
		l := start(t, cfg)
		for range 2 {
			want[client.Reconnecting](l)
			want[client.SessionResumed](l)
		}
		l.end()
	}
}

// TestNoToken: that there is none is an error of Start.
func TestNoToken(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	_, err := client.Start(t.Context(), client.Config{
		URL: "http://127.0.0.1:1", Start: wire.SessionStart{}, TokenSource: func(context.Context) (string, error) { return "", no },
	})
	if !errors.Is(err, no) {
		t.Errorf("Start: %v", err)
	}
}
