package bus_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestDeadLetters: what cannot be read, and what was tried often enough, is kept apart, and nothing else waits for it.
func TestDeadLetters(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		p.start("b")
		for _, body := range []string{"not JSON", `{"kind":"unheard of"}`} {
			if _, err := p.Post(t.Context(), store.PostParams{To: "b", Body: []byte(body), MaxMessages: 10}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.send(a, "b", hello, "well"); err != nil {
			t.Fatal(err)
		}
		p.wantHeard("b", "well")
		p.fails = 1 << 20
		if err := p.send(a, "b", hello, "never"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		p.wantHeard("b", "well")
		dead, err := p.DeadLetters(t.Context(), "b", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		var why []string
		for _, d := range dead {
			why = append(why, fmt.Sprintf("%s after %d", d.Reason, d.Deliveries))
		}
		if want := []string{"NOT_UNDERSTOOD after 1", "NOT_UNDERSTOOD after 1", "FAILED after 5"}; !slices.Equal(why, want) {
			t.Errorf("dead letters: %q, want %q", why, want)
		}
		if s := p.state("b"); s.Inbox != 0 || s.DeadLetters != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// TestDeadLettersAreSeenByAll, replayed and purged by any.
func TestDeadLettersAreSeenByAll(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		p.start("b")
		p.fails = 1 << 20
		for _, text := range []string{"one", "two"} {
			if err := a.Send(t.Context(), "b", hello, time.Hour, text); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		dead, all, err := a.DeadLetters(t.Context(), 10)
		if err != nil || len(dead) != 2 || all != 2 || dead[0].Kind != hello || dead[0].From != "a" || dead[0].Inbox != "b" {
			t.Fatalf("%+v, %v", dead, err)
		}
		if first, all, err := a.DeadLetters(t.Context(), 1); err != nil || len(first) != 1 || all != 2 {
			t.Errorf("one of them: %+v of %d, %v", first, all, err)
		}
		if one, err := a.DeadLetter(t.Context(), dead[1].Name()); err != nil || one.Reason != "FAILED" || string(one.Body) != `"two"` {
			t.Errorf("%+v, %v", one, err)
		}
		p.mu.Lock()
		p.fails = 0
		p.mu.Unlock()
		if err := a.Replay(t.Context(), dead[0].Name()); err != nil {
			t.Fatal(err)
		}
		p.wantHeard("a", "one")
		if err := a.Purge(t.Context(), dead[1].Name()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{dead[0].Name(), "b/1-1", "nonsense"} {
			if err := errors.Join(a.Replay(t.Context(), name), a.Purge(t.Context(), name)); !errors.Is(err, bus.ErrNoDeadLetter) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if left, all, err := a.DeadLetters(t.Context(), 10); err != nil || len(left) != 0 || all != 0 {
			t.Errorf("%+v, %v", left, err)
		}
		peers, err := a.Peers(t.Context())
		if err != nil || len(peers) != 2 || !peers[0].This || peers[1].This || peers[1].Name != "b" {
			t.Errorf("%+v, %v", peers, err)
		}
	})
}

// TestReplayedLettersKeepTheirAge: to be replayed makes no letter new. One that nobody needs any more is not replayed, and
// one whose time ends before it is dealt with is dropped then.
func TestReplayedLettersKeepTheirAge(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		p.start("b")
		p.fails = 1 << 20
		const needed = 2 * time.Minute
		if err := a.Send(t.Context(), "b", hello, needed, "one"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(needed - 10*time.Second)
		replayed := func() error {
			t.Helper()
			dead, _, err := a.DeadLetters(t.Context(), 10)
			if err != nil || len(dead) != 1 {
				t.Fatalf("%+v, %v; want one dead letter", dead, err)
			}
			return a.Replay(t.Context(), dead[0].Name())
		}
		if err := replayed(); err != nil {
			t.Errorf("while somebody needs it: %v", err)
		}
		time.Sleep(time.Minute) // it is tried for a while, and then nobody needs it any more
		p.wantHeard("a")
		if dead, _, err := a.DeadLetters(t.Context(), 10); err != nil || len(dead) != 0 {
			t.Errorf("it is dead again instead of dropped: %+v, %v", dead, err)
		}
		if err := a.Send(t.Context(), "b", hello, needed, "two"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(needed + time.Second)
		if err := replayed(); !errors.Is(err, bus.ErrExpired) {
			t.Errorf("when nobody needs it any more: %v", err)
		}
		if dead, _, err := a.DeadLetters(t.Context(), 10); err != nil || len(dead) != 1 {
			t.Errorf("one that was not replayed: %+v, %v", dead, err)
		}
	})
}

// TestAnInstanceThatIsGone: one of the others takes over what it left, once, and nothing remains of it.
func TestAnInstanceThatIsGone(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		p.start("b")
		p.start("c")
		a.die()
		if _, err := p.Post(t.Context(), store.PostParams{To: "a", Body: []byte("not JSON"), MaxMessages: 10}); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(bus.Message{ID: "x.1", From: "x", Kind: hello, TTLMS: 60_000, Body: json.RawMessage(`"unread"`)})
		if err != nil {
			t.Fatal(err)
		}
		if posted, err := p.Post(t.Context(), store.PostParams{To: "a", Body: body, MaxMessages: 10}); err != nil || posted != store.Accepted {
			t.Fatal(posted, err)
		}
		time.Sleep(3 * ttl)
		synctest.Wait()
		p.mu.Lock()
		who := append(slices.Clone(p.gone["b"]), p.gone["c"]...)
		heard := append(slices.Clone(p.heard["b"]), p.heard["c"]...)
		p.mu.Unlock()
		if !slices.Equal(who, []core.InstanceID{"a"}) {
			t.Errorf("taken over: %v, want a once", who)
		}
		if !slices.Equal(heard, []string{`taken over "unread", never fetched: true`}) {
			t.Errorf("inherited: %q", heard)
		}
		// What nobody understands stays, under its name.
		if s := p.state("a"); s.Present || s.HasInbox || s.DeadLetters != 1 {
			t.Errorf("what is left: %+v", s)
		}
		if _, err := p.Discard(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * ttl)
		if s := p.state("a"); s.ID != "" {
			t.Errorf("when its dead letters are gone: %+v", s)
		}
	})
}

// TestLeaving leaves nothing to the others.
func TestLeaving(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		p.start("b")
		a.die()
		if err := a.Leave(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if s := p.state("a"); s.ID != "" {
			t.Errorf("%+v", s)
		}
		time.Sleep(3 * ttl)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.gone["b"]) != 0 {
			t.Errorf("b took over from %v", p.gone["b"])
		}
	})
}
