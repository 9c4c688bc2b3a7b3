package conversations

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

var (
	sessions = flag.Int("sessions", 100, "how many sessions TestManyConversations holds")
	nodes    = flag.Int("nodes", 8, "how many nodes serve them")
	during   = flag.Duration("during", 6*time.Second, "how long they speak")
)

const (
	frame   = 100 * time.Millisecond
	frames  = 6               // of an utterance
	between = 5 * time.Second // utterances of a session
)

var quiet = slog.New(slog.DiscardHandler)

// speech is one frame of sound.
var speech = func() []byte {
	pcm := make([]byte, 3200)
	for i := range len(pcm) / 2 {
		v := int16(8000 * math.Sin(float64(i)/5))
		pcm[2*i], pcm[2*i+1] = byte(v), byte(v>>8)
	}
	return pcm
}()

// book notes when things happened to each utterance.
type book struct {
	mu   sync.Mutex
	said map[string]time.Time // the audio's end
	did  map[string]time.Time // the node's result

	there, back []time.Duration
	results     atomic.Int64
	errors      atomic.Int64
}

func newBook() *book {
	return &book{said: make(map[string]time.Time), did: make(map[string]time.Time)}
}

func (b *book) speaks(utterance string) { b.speaksAt(utterance, time.Now()) }

func (b *book) speaksAt(utterance string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said[utterance] = at
}

// clear forgets what was measured.
func (b *book) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.there, b.back = nil, nil
}

func (b *book) arrives(utterance string) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.said[utterance]; ok {
		b.there = append(b.there, now.Sub(at))
	}
}

func (b *book) finishes(utterance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.did[utterance] = time.Now()
}

func (b *book) returns(utterance string) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.did[utterance]; ok {
		b.back = append(b.back, now.Sub(at))
	}
	delete(b.said, utterance)
	delete(b.did, utterance)
}

func part(list []time.Duration, p float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))].Round(10 * time.Microsecond)
}

// staff runs nodes that take as long as nothing.
func staff(ctx context.Context, tb testing.TB, url string, count, slots int, b *book) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			err := node.Run(ctx, node.Config{
				URL: url, ID: fmt.Sprintf("node-%d", i), Slots: slots, Log: quiet, ShutdownTimeout: time.Second,
				Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
			}, func(ctx context.Context, job *node.Job) (node.Result, error) {
				audio, err := job.Audio(ctx)
				if err != nil {
					return node.Result{}, err
				}
				said := numberedSpeech(job.Session, numberIn(audio))
				b.arrives(said)
				b.finishes(said)
				return node.Result{TextTgt: said}, nil
			})
			if err != nil {
				tb.Error(err)
			}
		})
	}
	return &all
}

// speaker is one session.
type speaker struct {
	s      *client.Session
	number int
}

// open starts a session.
func open(ctx context.Context, url string, number int) (*speaker, error) {
	s, err := client.Start(ctx, client.Config{URL: url, Log: quiet, Start: wire.SessionStart{Langs: []string{"en", "es"}}})
	return &speaker{s, number}, err
}

// numberedSpeech names an utterance by its session and its number there.
func numberedSpeech(session string, number int64) string {
	return fmt.Sprintf("%s.%d", session, number)
}

// numbered is one frame of speech that holds a number, which numberIn reads from the audio that ends with it.
func numbered(number int64) []byte {
	pcm := slices.Clone(speech)
	binary.LittleEndian.PutUint64(pcm[len(pcm)-8:], uint64(number))
	return pcm
}

func numberIn(audio []byte) int64 {
	if len(audio) < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(audio[len(audio)-8:]))
}

// run speaks until the context ends and checks what comes back: everything, once, in order.
func (p *speaker) run(ctx context.Context, tb testing.TB, b *book) {
	var said atomic.Int64
	go func() {
		for backoff.Sleep(ctx, rand.N(between)); ctx.Err() == nil; backoff.SleepJitter(ctx, between-frames*frame, 0.2) {
			n := said.Add(1)
			for range frames {
				if _, err := p.s.Write(numbered(n)); err != nil {
					tb.Error(err)
					return
				}
				time.Sleep(frame)
			}
			b.speaks(numberedSpeech(p.s.ID(), n))
			if err := p.s.Commit(); err != nil {
				tb.Error(err)
				return
			}
		}
		if err := p.s.End(); err != nil {
			tb.Error(err)
		}
	}()
	next := int64(0)
	for e, err := range p.s.Events() {
		if err != nil {
			tb.Errorf("session %d: %v", p.number, err)
			return
		}
		switch e := e.(type) {
		case client.Result:
			b.returns(e.TextTgt)
			b.results.Add(1)
			if want := numberedSpeech(p.s.ID(), next+1); e.UtteranceIndex != next || e.TextTgt != want {
				tb.Errorf("session %d: result %d of %s, want %d of %s", p.number, e.UtteranceIndex, e.TextTgt, next, want)
			}
			next++
		case client.UtteranceFailed:
			b.errors.Add(1)
			tb.Logf("session %d: %s %s", p.number, e.Err.Code, e.Err.Detail)
			next++
		case client.SessionEnded:
			if e.Utterances != next || next != said.Load() {
				tb.Errorf("session %d: said %d, counted %d, heard %d", p.number, said.Load(), e.Utterances, next)
			}
		}
	}
}

// TestManyConversations holds many conversations at once: nothing is lost, doubled or out of order. In full:
//
//	go test -count=1 -v -run TestManyConversations ./bench/conversations -sessions 5000 -nodes 200 -during 2m -timeout 15m
func TestManyConversations(t *testing.T) {
	p := start(t)
	empty := p.memory(t)
	ctx, stop := context.WithCancel(t.Context())
	b := newBook()
	crew := staff(ctx, t, p.url, *nodes, 16, b)

	before := p.memory(t)
	all := make([]*speaker, *sessions)
	var opening sync.WaitGroup
	gate := make(chan struct{}, 64)
	for i := range all {
		gate <- struct{}{}
		opening.Go(func() {
			defer func() { <-gate }()
			var err error
			if all[i], err = open(t.Context(), p.url, i); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		stop()
		return
	}
	idle := p.memory(t)
	t.Logf("idle: %d bytes a session (%d of heap, %d of stacks; %.1f goroutines); the scheduler alone %d KiB",
		(idle.total()-before.total())/uint64(*sessions), (idle.Heap-before.Heap)/uint64(*sessions), (idle.Stack-before.Stack)/uint64(*sessions),
		float64(idle.Goroutines-before.Goroutines)/float64(*sessions), empty.total()>>10)

	speaking, hush := context.WithTimeout(t.Context(), *during)
	defer hush()
	var talks sync.WaitGroup
	for _, s := range all {
		talks.Go(func() { s.run(speaking, t, b) })
	}
	talks.Wait()
	stop()
	crew.Wait()
	t.Logf("%d sessions, %d nodes, %v: %d results, %d errors; audio's end to node p50 %v p99 %v; node's result to session p50 %v p99 %v",
		*sessions, *nodes, *during, b.results.Load(), b.errors.Load(),
		part(b.there, 0.5), part(b.there, 0.99), part(b.back, 0.5), part(b.back, 0.99))
	if b.results.Load() == 0 {
		t.Error("nothing was said")
	}
}
