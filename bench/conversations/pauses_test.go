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

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// sessionPause is the pause that ends an utterance of these sessions.
const sessionPause = 500 * time.Millisecond

// BenchmarkPauseProbes has many sessions end their utterances explicitly and by a pause, in turn, and reports what a pause
// costs: a ping and a pong, which distinguish it from a stall. In full:
//
//	go test -run '^$' -bench PauseProbes -benchtime 1x ./bench/conversations -sessions 5000 -nodes 50 -during 20s -timeout 15m
func BenchmarkPauseProbes(t *testing.B) {
	p := startScheduler(t)
	b := newUtteranceLog()
	startNodes(t, p.url, *nodes, 16, b)
	all := openSessions(t, client.Config{
		URL: p.url, Start: wire.SessionStart{Segmentation: wire.SessionSegmentation{PauseMS: sessionPause.Milliseconds()}},
	})
	var reading sync.WaitGroup
	for _, s := range all {
		reading.Go(func() {
			for e, err := range s.Events() {
				if r, ok := e.(client.Result); ok && err == nil {
					b.returned(r.TextTgt)
				}
			}
		})
	}
	const rounds = 2
	for t.Loop() {
		var cost [2][]float64
		for range rounds {
			for i, byPause := range []bool{false, true} {
				cost[i] = append(cost[i], p.runSessions(t, b, all, byPause))
			}
		}
		t.ReportMetric(stats.Median(cost[0]), "µs-by-hand")
		t.ReportMetric(stats.Median(cost[1]), "µs-by-pause")
	}
	t.ReportMetric(0, "ns/op")
	for _, s := range all {
		_ = s.Close()
	}
	reading.Wait()
}

// runSessions has every session send utterances for a while, and returns the CPU time of the scheduler for each utterance,
// in microseconds.
func (p *process) runSessions(t *testing.B, b *utteranceLog, all []fleet.Session, byPause bool) float64 {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), *during)
	defer stop()
	b.clear()
	var sent atomic.Int64
	before := p.cpuTime(t)
	var running sync.WaitGroup
	for n, s := range all {
		running.Go(func() {
			for run.Sleep(ctx, rand.N(utteranceInterval)); ctx.Err() == nil; run.SleepJitter(ctx, utteranceInterval-framesPerUtterance*frameDuration, 0.2) {
				number := sent.Add(1)*int64(len(all)) + int64(n)
				for range framesPerUtterance {
					if _, err := s.Write(numberedFrame(number)); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(frameDuration)
				}
				end := time.Now()
				if byPause {
					end = end.Add(sessionPause - frameDuration) // counted from the last frame
				}
				b.sentAtTime(utteranceName(s.ID(), number), end)
				if !byPause {
					if err := s.Commit(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	running.Wait()
	run.Sleep(t.Context(), sessionPause+time.Second) // for the last results
	took := p.cpuTime(t) - before
	how := "by hand"
	if byPause {
		how = "by a pause"
	}
	t.Logf("%s: %d utterances in %v; %v after that at the node p50, %v p99", how, sent.Load(), *during, percentile(b.toNode, 0.5), percentile(b.toNode, 0.99))
	return float64(took.Microseconds()) / float64(max(sent.Load(), 1))
}

// cpuTime returns the CPU time of the scheduler so far.
func (p *process) cpuTime(t *testing.B) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
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
