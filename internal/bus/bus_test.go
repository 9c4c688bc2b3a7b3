package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl             = 3 * time.Second
	hello  bus.Kind = "hello"
	slowly bus.Kind = "slowly"
)

// post is a store that can be told to fail, and some instances that share it.
type post struct {
	*memstore.Store
	t *testing.T
	// takeOver is what is done by an instance when another is gone, if it is not only to be noted.
	takeOver func(ctx context.Context, by core.InstanceID) error

	mu     sync.Mutex
	away   map[core.InstanceID]bool // who cannot reach the store
	heard  map[core.InstanceID][]string
	gone   map[core.InstanceID][]core.InstanceID
	fails  int  // how many letters cannot be dealt with
	excuse bool // because the store is away
}

// one is an instance.
type one struct {
	*bus.Receiver
	p     *post
	kill  context.CancelFunc
	ended chan struct{}
}

var errAway = errors.New("the store is away")

// link is the store as one instance sees it.
type link struct {
	*post
	id core.InstanceID
}

func (l link) Announce(ctx context.Context, p store.AnnounceParams) error {
	l.mu.Lock()
	away := l.away[l.id]
	l.mu.Unlock()
	if away {
		return errAway
	}
	return l.Store.Announce(ctx, p)
}

func play(t *testing.T, fn func(p *post)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn(&post{
			Store: memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second}), t: t,
			away: make(map[core.InstanceID]bool), heard: make(map[core.InstanceID][]string), gone: make(map[core.InstanceID][]core.InstanceID),
		})
	})
}

// start runs an instance until the test ends, or it is killed.
func (p *post) start(id core.InstanceID) *one {
	p.t.Helper()
	b := bus.New(bus.Config{
		Instance: id, TTL: ttl, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{Name: string(id)} },
	}, link{p, id}, telemetry.New(), slog.New(slog.DiscardHandler))
	take := bus.Decoding(func(_ context.Context, _ *bus.Message, text *string) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.fails > 0 {
			p.fails--
			if p.excuse {
				return store.ErrDown
			}
			if p.fails%2 == 0 {
				panic("it is too much")
			}
			return errors.New("not today")
		}
		p.heard[id] = append(p.heard[id], *text)
		return nil
	})
	handlers := map[bus.Kind]bus.Handler{slowly: {Handle: take, Async: true}, hello: {Handle: take, TakeOver: func(_ context.Context, m *bus.Message, never bool) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.heard[id] = append(p.heard[id], fmt.Sprintf("taken over %s, never fetched: %v", m.Body, never))
		return nil
	}}}
	r := bus.NewReceiver(b, handlers, func(ctx context.Context, who core.InstanceID) error {
		if p.takeOver != nil {
			return p.takeOver(ctx, id)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gone[id] = append(p.gone[id], who)
		return nil
	})
	if err := b.Announce(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.Background())
	o := &one{Receiver: r, p: p, kill: kill, ended: make(chan struct{})}
	go func() {
		defer close(o.ended)
		r.Run(ctx)
	}()
	p.t.Cleanup(o.die)
	return o
}

// die ends an instance as a power cut would.
func (o *one) die() {
	o.kill()
	<-o.ended
}

func (p *post) send(from *one, to core.InstanceID, kind bus.Kind, text string) error {
	return from.Send(p.t.Context(), to, kind, time.Minute, text)
}

func (p *post) wantHeard(id core.InstanceID, want ...string) {
	p.t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.heard[id], want) {
		p.t.Errorf("%s heard %q, want %q", id, p.heard[id], want)
	}
}

// state is how the store sees an instance.
func (p *post) state(id core.InstanceID) store.Instance {
	p.t.Helper()
	all, err := p.Instances(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, i := range all {
		if i.ID == id {
			return i
		}
	}
	return store.Instance{}
}

func TestLettersArrive(t *testing.T) {
	play(t, func(p *post) {
		a, b := p.start("a"), p.start("b")
		for i := range 3 {
			if err := p.send(a, "b", hello, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		p.wantHeard("b", "0", "1", "2")
		if err := p.send(b, "a", slowly, "back"); err != nil {
			t.Fatal(err)
		}
		p.wantHeard("a", "back")
		if err := p.send(a, "nobody", hello, "x"); !errors.Is(err, bus.ErrAbsent) {
			t.Errorf("to nobody: %v", err)
		}
		if s := p.state("b"); s.Inbox != 0 || s.Pending != 0 {
			t.Errorf("what was dealt with is still there: %+v", s)
		}
	})
}

func TestAnOverfullInboxRefuses(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		if err := p.Announce(t.Context(), store.AnnounceParams{ID: "b", TTL: time.Hour}); err != nil { // nobody reads there
			t.Fatal(err)
		}
		var err error
		sent := 0
		for ; err == nil && sent < 100_000; sent++ {
			err = p.send(a, "b", hello, "x")
		}
		if !errors.Is(err, bus.ErrFull) || sent < 1000 {
			t.Errorf("after %d letters: %v", sent, err)
		}
	})
}

func TestALetterThatComesTwice(t *testing.T) {
	play(t, func(p *post) {
		p.start("b")
		body, err := json.Marshal(bus.Message{ID: "a.1", From: "a", Kind: hello, TTLMS: 60_000, Body: json.RawMessage(`"once"`)})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := p.Post(t.Context(), store.PostParams{To: "b", Body: body, MaxMessages: 10}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		p.wantHeard("b", "once")
	})
}

func TestAStaleLetterIsDropped(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		if err := p.Announce(t.Context(), store.AnnounceParams{ID: "b", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if err := a.Send(t.Context(), "b", hello, 2*time.Second, "late"); err != nil {
			t.Fatal(err)
		}
		if err := a.Send(t.Context(), "b", hello, time.Minute, "in time"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		p.start("b")
		p.wantHeard("b", "in time")
		if s := p.state("b"); s.Inbox != 0 || s.DeadLetters != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestALetterThatFails is tried again, also after a panic, and is dealt with when that works.
func TestALetterThatFails(t *testing.T) {
	for name, kind := range map[string]bus.Kind{"in its turn": hello, "beside": slowly} {
		t.Run(name, func(t *testing.T) {
			play(t, func(p *post) {
				a := p.start("a")
				p.start("b")
				p.fails = 3
				if err := p.send(a, "b", kind, "in the end"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute / 2)
				p.wantHeard("b", "in the end")
				if s := p.state("b"); s.Inbox != 0 || s.DeadLetters != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestTheFence: an instance that cannot renew its presence may not grant well before the others take it for gone.
func TestTheFence(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		p.start("b")
		if fence := bus.New(bus.Config{TTL: ttl}, p, telemetry.New(), nil).Fence(); !fence.IsZero() {
			t.Errorf("one that was never announced may grant until %v", fence)
		}
		for range 20 {
			time.Sleep(ttl / 4)
			if left := time.Until(a.Fence()); left <= 0 || left > ttl*2/3 {
				t.Fatalf("while all is well it may grant for %s more", left)
			}
		}
		p.mu.Lock()
		p.away["a"] = true
		p.mu.Unlock()
		fenced, gone := time.Duration(0), time.Duration(0)
		for began := time.Now(); gone == 0 || fenced == 0; time.Sleep(10 * time.Millisecond) {
			if fenced == 0 && !time.Now().Before(a.Fence()) {
				fenced = time.Since(began)
			}
			if gone == 0 && !p.state("a").Present {
				gone = time.Since(began)
			}
			if time.Since(began) > time.Minute {
				t.Fatal("it is neither fenced nor gone")
			}
		}
		if gone-fenced < ttl/4 {
			t.Errorf("fenced after %s, gone after %s", fenced, gone)
		}
		p.mu.Lock()
		p.away["a"] = false
		p.mu.Unlock()
		time.Sleep(ttl)
		if !time.Now().Before(a.Fence()) || !p.state("a").Present {
			t.Error("it does not come back")
		}
	})
}
