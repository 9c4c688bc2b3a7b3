package conversations

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/wire"
)

// pauseOf is the pause after which utterances of these sessions end.
const pauseOf = 500 * time.Millisecond

// BenchmarkPauseProbes has many sessions end their utterances by hand and by a pause, in turns, and prints what a pause costs: a
// ping and a pong to tell it from a stall. In full:
//
//	go test -run '^$' -bench PauseProbes -benchtime 1x ./bench/conversations -sessions 5000 -nodes 50 -during 20s -timeout 15m
func BenchmarkPauseProbes(t *testing.B) {
	p := start(t)
	ctx, stop := context.WithCancel(t.Context())
	b := newBook()
	crew := staff(ctx, t, p.url, *nodes, 16, b)
	defer crew.Wait()
	defer stop()
	all := make([]*client.Session, *sessions)
	var opening sync.WaitGroup
	gate := make(chan struct{}, 64)
	for i := range all {
		gate <- struct{}{}
		opening.Go(func() {
			defer func() { <-gate }()
			var err error
			all[i], err = client.Start(t.Context(), client.Config{URL: p.url, Log: quiet, Start: wire.SessionStart{
				Langs: []string{"en", "es"}, Segmentation: wire.SessionSegmentation{PauseMS: pauseOf.Milliseconds()},
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	var heard sync.WaitGroup
	for _, s := range all {
		heard.Go(func() {
			for e, err := range s.Events() {
				if r, ok := e.(client.Result); ok && err == nil {
					b.returns(r.TextTgt)
				}
			}
		})
	}
	const rounds = 2
	for t.Loop() {
		var cost [2][]float64
		for range rounds {
			for i, byPause := range []bool{false, true} {
				cost[i] = append(cost[i], p.speakAll(t, b, all, byPause))
			}
		}
		t.ReportMetric(median(cost[0]), "µs-by-hand")
		t.ReportMetric(median(cost[1]), "µs-by-pause")
	}
	t.ReportMetric(0, "ns/op")
	for _, s := range all {
		_ = s.Close()
	}
	heard.Wait()
}

// speakAll has every session speak for a while, and returns how much CPU the scheduler took for each utterance, in
// microseconds.
func (p *process) speakAll(t *testing.B, b *book, all []*client.Session, byPause bool) float64 {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), *during)
	defer stop()
	b.clear()
	var said atomic.Int64
	before := p.cpu(t)
	var talks sync.WaitGroup
	for n, s := range all {
		talks.Go(func() {
			for backoff.Sleep(ctx, rand.N(between)); ctx.Err() == nil; backoff.SleepJitter(ctx, between-frames*frame, 0.2) {
				number := said.Add(1)*int64(len(all)) + int64(n)
				for range frames {
					if _, err := s.Write(numbered(number)); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(frame)
				}
				end := time.Now()
				if byPause {
					end = end.Add(pauseOf - frame) // the last frame was sent so long ago
				}
				b.speaksAt(numberedSpeech(s.ID(), number), end)
				if !byPause {
					if err := s.Commit(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	talks.Wait()
	backoff.Sleep(t.Context(), pauseOf+time.Second) // for the last results
	took := p.cpu(t) - before
	how := "by hand"
	if byPause {
		how = "by a pause"
	}
	t.Logf("%s: %d utterances in %v; %v after that at the node p50, %v p99", how, said.Load(), *during, part(b.there, 0.5), part(b.there, 0.99))
	return float64(took.Microseconds()) / float64(max(said.Load(), 1))
}

// cpu is how much CPU time the scheduler has taken.
func (p *process) cpu(t *testing.B) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
