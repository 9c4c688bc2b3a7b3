package bus_test

import (
	"bytes"
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

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

const (
	ttl                = 3 * time.Second
	syncKind  bus.Kind = "hello"
	asyncKind bus.Kind = "slowly"
)

// harness is a store that can fail, and the instances that share it.
type harness struct {
	*memstore.Store
	t *testing.T
	// onDead replaces the default reaction of an instance to a dead one, which only records it in takeovers.
	onDead func(ctx context.Context, by core.InstanceID) error

	mu          sync.Mutex
	unreachable map[core.InstanceID]bool // instances that cannot reach the store
	handled     map[core.InstanceID][]string
	takeovers   map[core.InstanceID][]core.InstanceID
	failures    int  // how many messages the handlers fail
	storeDown   bool // they fail with store.ErrDown
}

// instance is a running instance.
type instance struct {
	*bus.Receiver
	metrics *telemetry.Metrics
	h       *harness
	cancel  context.CancelFunc
	stopped chan struct{}
}

var errStoreDown = errors.New("the store is down")

// instanceStore is the store of one instance.
type instanceStore struct {
	*harness
	id core.InstanceID
}

func (s instanceStore) Announce(ctx context.Context, p store.AnnounceParams) error {
	if s.isUnreachable() {
		return errStoreDown
	}
	return s.Store.Announce(ctx, p)
}

func (s instanceStore) isUnreachable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreachable[s.id]
}

// Fetch waits for nothing while the store cannot be reached, as a read does whose connection is not closed.
func (s instanceStore) Fetch(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	if s.isUnreachable() {
		run.Sleep(ctx, p.Wait)
		return nil, ctx.Err()
	}
	return s.Store.Fetch(ctx, p)
}

// withHarness runs a test with a harness in a synctest bubble.
func withHarness(t *testing.T, fn func(h *harness)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn(&harness{
			Store: memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second}), t: t,
			unreachable: make(map[core.InstanceID]bool), handled: make(map[core.InstanceID][]string), takeovers: make(map[core.InstanceID][]core.InstanceID),
		})
	})
}

// startInstance runs an instance until the test ends or it is killed.
func (h *harness) startInstance(id core.InstanceID) *instance {
	h.t.Helper()
	metrics := telemetry.New()
	b := bus.New(bus.Config{
		Instance: id, TTL: ttl, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{Name: string(id)} },
	}, instanceStore{h, id}, metrics, slog.New(slog.DiscardHandler))
	handle := bus.Decoding(func(_ context.Context, _ *bus.Message, text *string) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.failures > 0 {
			h.failures--
			if h.storeDown {
				return store.ErrDown
			}
			if h.failures%2 == 0 {
				panic("the handler panics")
			}
			return errors.New("the handler fails")
		}
		h.handled[id] = append(h.handled[id], *text)
		return nil
	})
	handlers := map[bus.Kind]bus.Handler{asyncKind: {Handle: handle, Async: true}, syncKind: {Handle: handle, TakeOver: func(_ context.Context, m *bus.Message, never bool) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.handled[id] = append(h.handled[id], fmt.Sprintf("taken over %s, never fetched: %v", m.Body, never))
		return nil
	}}}
	r := bus.NewReceiver(b, handlers, func(ctx context.Context, dead core.InstanceID) error {
		if h.onDead != nil {
			return h.onDead(ctx, id)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.takeovers[id] = append(h.takeovers[id], dead)
		return nil
	})
	if err := b.Announce(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{Receiver: r, metrics: metrics, h: h, cancel: cancel, stopped: make(chan struct{})}
	go func() {
		defer close(i.stopped)
		r.Run(ctx)
	}()
	h.t.Cleanup(i.kill)
	return i
}

// kill ends an instance without its presence being withdrawn.
func (i *instance) kill() {
	i.cancel()
	<-i.stopped
}

// send sends a message with a TTL of a minute.
func (h *harness) send(from *instance, to core.InstanceID, kind bus.Kind, text string) error {
	return from.Send(h.t.Context(), to, kind, time.Minute, text)
}

// wantHandled compares the messages that an instance has handled.
func (h *harness) wantHandled(id core.InstanceID, want ...string) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.handled[id], want) {
		h.t.Errorf("%s handled %q, want %q", id, h.handled[id], want)
	}
}

// instanceState returns the state of an instance in the store.
func (h *harness) instanceState(id core.InstanceID) store.Instance {
	h.t.Helper()
	all, err := h.Instances(h.t.Context(), store.InstancesParams{Inboxes: true})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, i := range all {
		if i.ID == id {
			return i
		}
	}
	return store.Instance{}
}

// waitTimeout bounds every wait of the tests in real time.
const waitTimeout = 20 * time.Second

// onBothStores runs a test with the memory store and with Redis, in real time.
func onBothStores(t *testing.T, test func(t *testing.T, st store.Store)) {
	t.Helper()
	t.Parallel()
	timing := store.Timing{Presence: 2 * time.Second, ReservedTTL: time.Second, Attempt: 4 * time.Second, Job: 8 * time.Second, Retention: 5 * time.Second}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, memstore.New(timing))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		address, err := redisstore.ParseAddress(redistest.Start(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		st, err := redisstore.Open(t.Context(), redisstore.Options{
			Address: address, Prefix: "test", Timing: timing, Timeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		test(t, st)
	})
}

// logLine is a line of the log.
type logLine struct {
	Msg    string `json:"msg"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Tries  int    `json:"tries"`
	Bytes  int    `json:"bytes"`
}

// logLines is a log writer that passes on the lines.
type logLines chan logLine

func (l logLines) Write(line []byte) (int, error) {
	var e logLine
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&e)
	l <- e
	return len(line), err
}

const deadLetterLogMessage = "a message became a dead letter; look at it with: lingua dlq show ID"

// waitForDeadLetter waits for the log line of the next dead letter.
func (l logLines) waitForDeadLetter(t *testing.T) logLine {
	t.Helper()
	timeout := time.After(waitTimeout)
	for {
		select {
		case e := <-l:
			if e.Msg == deadLetterLogMessage {
				return e
			}
		case <-timeout:
			t.Fatal("no message became a dead letter")
		}
	}
}

// newBus makes a bus of an instance that is present, without a receiver.
func newBus(t *testing.T, st store.Store, id core.InstanceID, ttl time.Duration, log logLines) *bus.Bus {
	t.Helper()
	b := bus.New(bus.Config{
		Instance: id, TTL: ttl, Block: 100 * time.Millisecond, Keep: time.Hour, About: func() bus.About { return bus.About{} },
	}, st, telemetry.New(), slog.New(slog.NewJSONHandler(log, nil)))
	if err := b.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// runReceiver runs a receiver until the test ends.
func runReceiver(t *testing.T, b *bus.Receiver) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
}

// postRaw posts a text that no bus has encoded.
func postRaw(t *testing.T, st store.Store, to core.InstanceID, text string) {
	t.Helper()
	if posted, err := st.Post(t.Context(), store.PostParams{To: to, Body: []byte(text), MaxMessages: 100}); err != nil || posted != store.Accepted {
		t.Fatal(posted, err)
	}
}

// ignoreDead is the onDead of tests without dead instances.
func ignoreDead(context.Context, core.InstanceID) error { return nil }

// mustNotHandle is a handler that must not be called.
func mustNotHandle(context.Context, *bus.Message, *string) error {
	return errors.New("the handler was called")
}
