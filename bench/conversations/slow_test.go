package conversations

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	slowReaders, quickReaders = 500, 100
	slowWindow, slowTurns     = 4 * time.Second, 7
	spokenBytes               = 64 << 10
)

// BenchmarkSlowReaders measures how long people wait for their results while 500 others speak too and are sent speech: in
// turns in which those read it, and in which they read nothing.
func BenchmarkSlowReaders(b *testing.B) {
	p := start(b)
	ctx, stop := context.WithCancel(b.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for i := range 20 {
		others.Go(func() {
			err := node.Run(ctx, node.Config{
				URL: p.url, ID: fmt.Sprintf("node-%d", i), Slots: 32, Log: quiet, ShutdownTimeout: time.Second,
				Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}},
			}, func(_ context.Context, job *node.Job) (node.Result, error) {
				r := node.Result{TextTgt: "x"}
				if job.Options.RequireTTS {
					r.Speech = make([]byte, spokenBytes)
				}
				return r, nil
			})
			if err != nil {
				b.Error(err)
			}
		})
	}
	var reading atomic.Bool // whether the slow ones read
	for range slowReaders {
		others.Go(func() {
			for ctx.Err() == nil {
				_ = speakSlowly(ctx, p.url, &reading) // it was closed, and comes again
			}
		})
	}
	watch := &waits{}
	for range quickReaders {
		s, err := client.Start(ctx, client.Config{URL: p.url, Log: quiet, Start: wire.SessionStart{Langs: []string{"en", "es"}}})
		if err != nil {
			b.Fatal(err)
		}
		others.Go(func() { watch.speak(ctx, s) })
		others.Go(func() { watch.listen(s) })
	}
	for b.Loop() {
		var ratios, without, with []float64
		backoff.Sleep(ctx, slowWindow)
		for range slowTurns {
			var p99 [2]time.Duration
			for i, reads := range []bool{true, false} {
				reading.Store(reads)
				backoff.Sleep(ctx, slowWindow/4)
				watch.reset()
				backoff.Sleep(ctx, slowWindow)
				p99[i] = part(watch.reset(), 0.99)
			}
			without, with = append(without, float64(p99[0].Microseconds())), append(with, float64(p99[1].Microseconds()))
			ratios = append(ratios, float64(p99[1])/float64(p99[0]))
		}
		b.ReportMetric(median(without), "p99-µs-all-read")
		b.ReportMetric(median(with), "p99-µs-500-slow")
		b.ReportMetric(median(ratios), "of-all-read")
	}
	b.ReportMetric(0, "ns/op")
}

// speakSlowly is a speaker who asks for speech and reads it only if it is told to, until it is closed.
func speakSlowly(ctx context.Context, url string, reading *atomic.Bool) error {
	ws, _, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1)+"/ws/session", &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		backoff.SleepJitter(ctx, time.Second, 0.5)
		return nil
	}
	ws.SetReadLimit(-1)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer func() { _ = ws.CloseNow() }()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	reader.Go(func() {
		defer leave()
		for ctx.Err() == nil {
			if !reading.Load() {
				backoff.Sleep(ctx, 20*time.Millisecond)
			} else if _, _, err := ws.Read(ctx); err != nil {
				return
			}
		}
	})
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"session_start","langs":["en","es"],"tts":true}`)); err != nil {
		return err
	}
	for backoff.SleepJitter(ctx, 2*time.Second, 0.5) {
		if err := errors.Join(ws.Write(ctx, websocket.MessageBinary, speech), ws.Write(ctx, websocket.MessageText, []byte(`{"type":"audio_chunk","is_final":true}`))); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// waits notes how long people wait.
type waits struct {
	mu   sync.Mutex
	said sync.Map // from request to when
	took []time.Duration
}

// reset forgets what was noted and returns it.
func (w *waits) reset() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	took := w.took
	w.took = nil
	return took
}

func (w *waits) speak(ctx context.Context, s *client.Session) {
	for n := 0; backoff.Sleep(ctx, rand.N(time.Second)); n++ {
		request := fmt.Sprintf("%s.%d", s.ID(), n)
		if s.Begin(wire.UtteranceStart{RequestID: request}) != nil {
			return
		}
		if _, err := s.Write(speech); err != nil {
			return
		}
		w.said.Store(request, time.Now())
		if s.Commit() != nil {
			return
		}
	}
	_ = s.Close()
}

func (w *waits) listen(s *client.Session) {
	for e, err := range s.Events() {
		if err != nil {
			return
		}
		r, ok := e.(client.Result)
		if !ok {
			continue
		}
		if at, ok := w.said.LoadAndDelete(r.RequestID); ok {
			w.mu.Lock()
			w.took = append(w.took, time.Since(at.(time.Time)))
			w.mu.Unlock()
		}
	}
}
