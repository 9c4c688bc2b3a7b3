package conversations

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
)

var (
	sessions = flag.Int("sessions", 100, "the number of sessions")
	nodes    = flag.Int("nodes", 8, "the number of nodes")
	during   = flag.Duration("during", 6*time.Second, "how long the sessions send utterances")
)

const (
	frameDuration      = 100 * time.Millisecond
	framesPerUtterance = 6
	utteranceInterval  = 5 * time.Second // of a session
)

// tone is one frame of audio.
var tone = clustertest.Tone(16_000)

// utteranceLog records the times of each utterance.
type utteranceLog struct {
	mu         sync.Mutex
	sentAt     map[string]time.Time // the end of the audio
	finishedAt map[string]time.Time // the node's result

	toNode, fromNode []time.Duration
	results          atomic.Int64
	errors           atomic.Int64
}

func newUtteranceLog() *utteranceLog {
	return &utteranceLog{sentAt: make(map[string]time.Time), finishedAt: make(map[string]time.Time)}
}

func (b *utteranceLog) sent(utterance string) { b.sentAtTime(utterance, time.Now()) }

func (b *utteranceLog) sentAtTime(utterance string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sentAt[utterance] = at
}

// clear removes the latencies so far.
func (b *utteranceLog) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.toNode, b.fromNode = nil, nil
}

func (b *utteranceLog) arrived(utterance string) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.sentAt[utterance]; ok {
		b.toNode = append(b.toNode, now.Sub(at))
	}
}

func (b *utteranceLog) finished(utterance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finishedAt[utterance] = time.Now()
}

func (b *utteranceLog) returned(utterance string) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.finishedAt[utterance]; ok {
		b.fromNode = append(b.fromNode, now.Sub(at))
	}
	delete(b.sentAt, utterance)
	delete(b.finishedAt, utterance)
}

// percentile returns a percentile of latencies, rounded for the log; 0: there are none.
func percentile(list []time.Duration, p float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return stats.Percentile(list, p).Round(10 * time.Microsecond)
}

// startNodes starts nodes that finish at once. They stop at the end of the test.
func startNodes(tb testing.TB, url string, count, slots int, b *utteranceLog) (stop func()) {
	tb.Helper()
	return fleet.StartNodes(tb, func(ctx context.Context, job *node.Job) (node.Result, error) {
		audio, err := job.Audio(ctx)
		if err != nil {
			return node.Result{}, err
		}
		sent := utteranceName(job.Session, frameNumber(audio))
		b.arrived(sent)
		b.finished(sent)
		return node.Result{TextTgt: sent}, nil
	}, fleet.Configs(count, func(i int) node.Config { return node.Config{URL: url, ID: fmt.Sprintf("node-%d", i), Slots: slots} })...)
}

// openSessions starts sessions, several at once.
func openSessions(tb testing.TB, cfg client.Config) []fleet.Session {
	tb.Helper()
	all := make([]fleet.Session, *sessions)
	var opening sync.WaitGroup
	startLimit := make(chan struct{}, 64)
	for i := range all {
		startLimit <- struct{}{}
		opening.Go(func() {
			defer func() { <-startLimit }()
			var err error
			if all[i], err = fleet.Start(tb.Context(), cfg); err != nil {
				tb.Error(err)
			}
		})
	}
	opening.Wait()
	if tb.Failed() {
		tb.FailNow()
	}
	return all
}

// utteranceName names an utterance by its session and its number there.
func utteranceName(session string, number int64) string {
	return fmt.Sprintf("%s.%d", session, number)
}

// numberedFrame is one frame of audio that contains a number, which frameNumber reads from the end of the audio.
func numberedFrame(number int64) []byte {
	pcm := slices.Clone(tone)
	binary.LittleEndian.PutUint64(pcm[len(pcm)-8:], uint64(number))
	return pcm
}

func frameNumber(audio []byte) int64 {
	if len(audio) < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(audio[len(audio)-8:]))
}

// talk sends utterances in a session until the context ends and checks the results: complete, once each, and in order.
func talk(ctx context.Context, tb testing.TB, s fleet.Session, b *utteranceLog) {
	var sent atomic.Int64
	go func() {
		for run.Sleep(ctx, rand.N(utteranceInterval)); ctx.Err() == nil; run.SleepJitter(ctx, utteranceInterval-framesPerUtterance*frameDuration, 0.2) {
			n := sent.Add(1)
			for range framesPerUtterance {
				if _, err := s.Write(numberedFrame(n)); err != nil {
					tb.Error(err)
					return
				}
				time.Sleep(frameDuration)
			}
			b.sent(utteranceName(s.ID(), n))
			if err := s.Commit(); err != nil {
				tb.Error(err)
				return
			}
		}
		if err := s.End(); err != nil {
			tb.Error(err)
		}
	}()
	next := int64(0)
	for e, err := range s.Events() {
		if err != nil {
			tb.Errorf("session %s: %v", s.ID(), err)
			return
		}
		switch e := e.(type) {
		case client.Result:
			b.returned(e.TextTgt)
			b.results.Add(1)
			if want := utteranceName(s.ID(), next+1); e.UtteranceIndex != next || e.TextTgt != want {
				tb.Errorf("session %s: result %d of %s, want %d of %s", s.ID(), e.UtteranceIndex, e.TextTgt, next, want)
			}
			next++
		case client.UtteranceFailed:
			b.errors.Add(1)
			tb.Logf("session %s: %s %s", s.ID(), e.Err.Code, e.Err.Detail)
			next++
		case client.SessionEnded:
			if e.Utterances != next || next != sent.Load() {
				tb.Errorf("session %s: sent %d utterances, session_ended counts %d, received %d outcomes", s.ID(), sent.Load(), e.Utterances, next)
			}
		}
	}
}

// TestManyConversations runs many sessions at once: no result is lost, repeated or out of order. In full:
//
//	go test -count=1 -v -run TestManyConversations ./bench/conversations -sessions 5000 -nodes 200 -during 2m -timeout 15m
func TestManyConversations(t *testing.T) {
	p := startScheduler(t)
	empty := p.memory(t)
	b := newUtteranceLog()
	stopNodes := startNodes(t, p.url, *nodes, 16, b)

	before := p.memory(t)
	all := openSessions(t, client.Config{URL: p.url})
	idle := p.memory(t)
	t.Logf("idle: %d bytes a session (%d of heap, %d of stacks; %.1f goroutines); the scheduler alone %d KiB",
		(idle.total()-before.total())/uint64(*sessions), (idle.Heap-before.Heap)/uint64(*sessions), (idle.Stack-before.Stack)/uint64(*sessions),
		float64(idle.Goroutines-before.Goroutines)/float64(*sessions), empty.total()>>10)

	speaking, stopSending := context.WithTimeout(t.Context(), *during)
	defer stopSending()
	var running sync.WaitGroup
	for _, s := range all {
		running.Go(func() { talk(speaking, t, s, b) })
	}
	running.Wait()
	stopNodes()
	t.Logf("%d sessions, %d nodes, %v: %d results, %d errors; audio's end to node p50 %v p99 %v; node's result to session p50 %v p99 %v",
		*sessions, *nodes, *during, b.results.Load(), b.errors.Load(),
		percentile(b.toNode, 0.5), percentile(b.toNode, 0.99), percentile(b.fromNode, 0.5), percentile(b.fromNode, 0.99))
	if b.results.Load() == 0 {
		t.Error("there was no result")
	}
}
