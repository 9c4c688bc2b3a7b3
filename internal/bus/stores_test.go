package bus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// onBoth runs a scene on either store, by the real clock.
func onBoth(t *testing.T, scene func(t *testing.T, st store.Store)) {
	t.Helper()
	t.Parallel()
	timing := store.Timing{Presence: 2 * time.Second, ReservedTTL: time.Second, Attempt: 4 * time.Second, Job: 8 * time.Second, Retention: 5 * time.Second}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		scene(t, memstore.New(timing))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		address, err := redisstore.ParseAddress(redistest.Start(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		st, err := redisstore.Open(t.Context(), redisstore.Options{
			Address: address, Prefix: "test", Timing: timing, Timeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		scene(t, st)
	})
}

// entry is a line of the log.
type entry struct {
	Msg    string `json:"msg"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Tries  int    `json:"tries"`
	Bytes  int    `json:"bytes"`
}

// diary hands on what is logged.
type diary chan entry

func (d diary) Write(line []byte) (int, error) {
	var e entry
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&e)
	d <- e
	return len(line), err
}

const isDead = "a message became a dead letter; look at it with: lingua dlq show ID"

// dead waits until a letter is dead.
func (d diary) dead(t *testing.T) entry {
	t.Helper()
	over := time.After(patience)
	for {
		select {
		case e := <-d:
			if e.Msg == isDead {
				return e
			}
		case <-over:
			t.Fatal("no letter died")
		}
	}
}

// member makes a bus that is not running.
func member(t *testing.T, st store.Store, id core.InstanceID, ttl time.Duration, d diary) *bus.Bus {
	t.Helper()
	b := bus.New(bus.Config{
		Instance: id, TTL: ttl, Block: 100 * time.Millisecond, Keep: time.Hour, About: func() bus.About { return bus.About{} },
	}, st, telemetry.New(), slog.New(slog.NewJSONHandler(d, nil)))
	if err := b.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs a bus until the test ends.
func run(t *testing.T, b *bus.Receiver) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// drop puts a letter into an inbox as anybody can who reaches the store.
func drop(t *testing.T, st store.Store, to core.InstanceID, text string) {
	t.Helper()
	if posted, err := st.Post(t.Context(), store.PostParams{To: to, Body: []byte(text), MaxMessages: 100}); err != nil || posted != store.Accepted {
		t.Fatal(posted, err)
	}
}

func nobodyDied(context.Context, core.InstanceID) error { return nil }

func nobody(context.Context, *bus.Message, *string) error {
	return errors.New("nobody should have read it")
}

// TestABodyThatCannotBeRead is dead at once, however short a time anybody needs its letter; the log calls it what the list
// calls it.
func TestABodyThatCannotBeRead(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		d := make(diary, 64)
		b := member(t, st, "b", time.Minute, d)
		run(t, bus.NewReceiver(b, map[bus.Kind]bus.Handler{
			hello: {Handle: bus.Decoding(nobody)}, slowly: {Handle: bus.Decoding(nobody), Async: true},
		}, nobodyDied))
		for _, kind := range []bus.Kind{hello, slowly} {
			text := `{"id":"p1","from":"x","kind":"` + string(kind) + `","ttl_ms":2000,"body":[1]}`
			drop(t, st, "b", text)
			e := d.dead(t)
			one, err := b.DeadLetter(t.Context(), e.ID)
			if err != nil {
				t.Fatalf("the log says %+v: %v", e, err)
			}
			if one.Reason != "NOT_UNDERSTOOD" || one.Kind != kind || one.Deliveries != 1 || e.Tries != 1 || e.Reason != one.Reason || e.Bytes != len(text) {
				t.Errorf("%+v; the log says %+v", one, e)
			}
			if err := b.Purge(t.Context(), e.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPoisonInAnEstate dies, and keeps nobody from burying the rest: what can be inherited is, once, and those who are
// bereaved hear of it once.
func TestPoisonInAnEstate(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		const fails bus.Kind = "fails"
		d := make(diary, 256)
		var bereaved, inherited atomic.Int64
		b := member(t, st, "b", 300*time.Millisecond, d) // a third of that between two tries
		read := bus.Decoding(func(context.Context, *bus.Message, *string) error {
			inherited.Add(1)
			return nil
		})
		r := bus.NewReceiver(b, map[bus.Kind]bus.Handler{
			hello: {Handle: read, TakeOver: func(ctx context.Context, m *bus.Message, _ bool) error { return read(ctx, m) }},
			fails: {Handle: read, TakeOver: func(context.Context, *bus.Message, bool) error { panic("it is too much") }},
		}, func(context.Context, core.InstanceID) error {
			bereaved.Add(1)
			return nil
		})
		if err := st.Announce(t.Context(), store.AnnounceParams{ID: "a", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		drop(t, st, "a", "not JSON")
		drop(t, st, "a", `{"id":"q1","kind":"fails","ttl_ms":60000,"body":"x"}`)
		drop(t, st, "a", `{"id":"q2","kind":"hello","ttl_ms":60000,"body":[1]}`)
		drop(t, st, "a", `{"id":"q3","kind":"hello","ttl_ms":60000,"body":"good"}`)
		if err := st.Withdraw(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		run(t, r)

		got := make(map[string]int)
		for range 3 {
			e := d.dead(t)
			one, err := b.DeadLetter(t.Context(), e.ID)
			if err != nil || one.Inbox != "a" || one.Deliveries != e.Tries {
				t.Errorf("the log says %+v: %+v, %v", e, one, err)
			}
			got[string(one.DeadLetter.Body[:4])+" "+one.Reason] = one.Deliveries
		}
		want := map[string]int{"not  NOT_UNDERSTOOD": 1, `{"id NOT_UNDERSTOOD`: 1, `{"id FAILED`: 5}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dead letters (-want +got):\n%s", diff)
		}
		buried(t, st, "a")
		if bereaved.Load() != 1 || inherited.Load() != 1 {
			t.Errorf("bereaved %d times, inherited %d times; want once", bereaved.Load(), inherited.Load())
		}
	})
}

// buried waits until an instance has no inbox, which nobody announces.
func buried(t *testing.T, st store.Store, id core.InstanceID) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		all, err := st.Instances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(i store.Instance) bool { return i.ID == id && i.HasInbox }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not buried: %+v", id, all)
		}
	}
}

// TestNoSuchDeadLetter is the answer to whatever cannot be the name of one.
func TestNoSuchDeadLetter(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		b := member(t, st, "b", time.Minute, make(diary, 64))
		drop(t, st, "b", "x") // where there are none at all, Redis does not look at names
		letters, err := st.Fetch(t.Context(), store.FetchParams{Inbox: "b", Wait: time.Second, Limit: 1})
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		if _, err := st.DeadLetter(t.Context(), store.DeadLetterParams{Inbox: "b", Message: letters[0], Reason: "FAILED", Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b/abc", "b/", "/", "b/1-1", "nobody/1-x", "nonsense"} {
			if err := b.Purge(t.Context(), name); !errors.Is(err, bus.ErrNoDeadLetter) {
				t.Errorf("purge %q: %v", name, err)
			}
			if err := b.Replay(t.Context(), name); !errors.Is(err, bus.ErrNoDeadLetter) {
				t.Errorf("replay %q: %v", name, err)
			}
		}
	})
}

// TestPeers are in the order of their names, and one that is gone still has its own.
func TestPeers(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		for _, life := range []core.InstanceID{"west-zzzzzzzz", "i-abcdefgh", "north-east-aaaaaaaa", "east-bbbbbbbb", "east-aaaaaaaa"} {
			if err := st.Announce(t.Context(), store.AnnounceParams{ID: life, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			if err := st.Withdraw(t.Context(), life); err != nil {
				t.Fatal(err)
			}
		}
		peers, err := member(t, st, "m-mmmmmmmm", time.Minute, make(diary, 64)).Peers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range peers {
			got = append(got, p.Name+" "+string(p.ID))
		}
		want := []string{
			"east east-aaaaaaaa", "east east-bbbbbbbb", "i-abcdefgh i-abcdefgh", "m m-mmmmmmmm", "north-east north-east-aaaaaaaa", "west west-zzzzzzzz",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestALifeHasItsName(t *testing.T) {
	t.Parallel()
	if life := bus.NewIncarnation("north-east"); bus.ConfiguredName(life) != "north-east" || life == bus.NewIncarnation("north-east") {
		t.Errorf("%s is a life of %q", life, bus.ConfiguredName(life))
	}
	if life := bus.NewIncarnation(""); bus.ConfiguredName(life) != string(life) {
		t.Errorf("%s, which has no name, is called %q", life, bus.ConfiguredName(life))
	}
}
