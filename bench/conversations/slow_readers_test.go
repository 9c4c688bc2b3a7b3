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

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	slowReaders, quickReaders = 500, 100
	slowWindow, slowTurns     = 4 * time.Second, 7
	speechBytes               = 64 << 10
)

// BenchmarkSlowReaders measures the latency of results while 500 other sessions receive speech, in turns in which these
// read it and in which they read nothing.
func BenchmarkSlowReaders(b *testing.B) {
	p := startScheduler(b)
	ctx, stop := context.WithCancel(b.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	fleet.StartNodes(b, func(_ context.Context, job *node.Job) (node.Result, error) {
		r := node.Result{TextTgt: "x"}
		if job.Options.RequireTTS {
			r.Speech = make([]byte, speechBytes)
		}
		return r, nil
	}, fleet.Configs(20, func(i int) node.Config {
		return node.Config{
			URL: p.url, ID: fmt.Sprintf("node-%d", i), Slots: 32, Declaration: wire.Declaration{TTSLangs: []string{"en", "es"}},
		}
	})...)
	var reading atomic.Bool // whether the slow readers read
	for range slowReaders {
		others.Go(func() {
			for ctx.Err() == nil {
				_ = runSlowReader(ctx, p.url, &reading) // the connection was closed; connect again
			}
		})
	}
	watch := &latencyLog{}
	for range quickReaders {
		s, err := fleet.Start(ctx, client.Config{URL: p.url})
		if err != nil {
			b.Fatal(err)
		}
		others.Go(func() { watch.sendUtterances(ctx, s) })
		others.Go(func() { watch.recordResults(s) })
	}
	for b.Loop() {
		var ratios, without, with []float64
		run.Sleep(ctx, slowWindow)
		for range slowTurns {
			var p99 [2]time.Duration
			for i, reads := range []bool{true, false} {
				reading.Store(reads)
				run.Sleep(ctx, slowWindow/4)
				watch.take()
				run.Sleep(ctx, slowWindow)
				p99[i] = percentile(watch.take(), 0.99)
			}
			without, with = append(without, float64(p99[0].Microseconds())), append(with, float64(p99[1].Microseconds()))
			ratios = append(ratios, float64(p99[1])/float64(p99[0]))
		}
		b.ReportMetric(stats.Median(without), "p99-µs-all-read")
		b.ReportMetric(stats.Median(with), "p99-µs-500-slow")
		b.ReportMetric(stats.Median(ratios), "of-all-read")
	}
	b.ReportMetric(0, "ns/op")
}

// runSlowReader is a session, not one of package client, which always reads. It asks for speech, and reads only while reading is set, until its connection is closed.
func runSlowReader(ctx context.Context, url string, reading *atomic.Bool) error {
	ws, _, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1)+"/ws/session", &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		run.SleepJitter(ctx, time.Second, 0.5)
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
				run.Sleep(ctx, 20*time.Millisecond)
			} else if _, _, err := ws.Read(ctx); err != nil {
				return
			}
		}
	})
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"session_start","langs":["en","es"],"tts":true}`)); err != nil {
		return err
	}
	for run.SleepJitter(ctx, 2*time.Second, 0.5) {
		if err := errors.Join(ws.Write(ctx, websocket.MessageBinary, tone), ws.Write(ctx, websocket.MessageText, []byte(`{"type":"audio_chunk","is_final":true}`))); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// latencyLog records the latencies of results.
type latencyLog struct {
	mu        sync.Mutex
	sentAt    sync.Map // from request id to time.Time
	latencies []time.Duration
}

// take returns and removes the latencies so far.
func (w *latencyLog) take() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	took := w.latencies
	w.latencies = nil
	return took
}

func (w *latencyLog) sendUtterances(ctx context.Context, s fleet.Session) {
	for n := 0; run.Sleep(ctx, rand.N(time.Second)); n++ {
		request := fmt.Sprintf("%s.%d", s.ID(), n)
		if s.Begin(wire.UtteranceStart{RequestID: request}) != nil {
			return
		}
		if _, err := s.Write(tone); err != nil {
			return
		}
		w.sentAt.Store(request, time.Now())
		if s.Commit() != nil {
			return
		}
	}
	_ = s.Close()
}

func (w *latencyLog) recordResults(s fleet.Session) {
	for e, err := range s.Events() {
		if err != nil {
			return
		}
		r, ok := e.(client.Result)
		if !ok {
			continue
		}
		if at, ok := w.sentAt.LoadAndDelete(r.RequestID); ok {
			w.mu.Lock()
			w.latencies = append(w.latencies, time.Since(at.(time.Time)))
			w.mu.Unlock()
		}
	}
}
