package scheduler_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

var cutFor = flag.Duration("cut-for", 5*time.Second, "how long TestCutConnections cuts connections")

// TestCutConnections cuts connections of speakers and nodes at random. Every utterance ends in exactly one terminal
// message, in order. In full:
//
//	go test -count=1 -v -run TestCutConnections ./internal/scheduler -cut-for 60s
func TestCutConnections(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 5
	cfg.Scheduler.Nodes.HeartbeatIntervalMS = 500
	address := strings.TrimPrefix(listen(t, cfg), "http://")
	var lines []*redistest.Proxy // each with some of the connections
	for range 8 {
		lines = append(lines, redistest.StartProxy(t, address))
	}
	at := func(i int) string { return "http://" + lines[i%len(lines)].Addr() }

	ctx, stop := context.WithCancel(t.Context())
	var nodes sync.WaitGroup
	for i := range 6 {
		nodes.Go(func() {
			err := node.Run(ctx, node.Config{
				URL: at(i), ID: fmt.Sprintf("node-%d", i), Slots: 16, Log: silent, ShutdownTimeout: time.Second,
				Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
			}, func(ctx context.Context, job *node.Job) (node.Result, error) {
				audio, err := job.Audio(ctx)
				if err != nil {
					return node.Result{}, err
				}
				backoff.Sleep(ctx, rand.N(200*time.Millisecond))
				return node.Result{TextSrc: fmt.Sprint(len(audio))}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	speaking, hush := context.WithTimeout(t.Context(), *cutFor)
	defer hush()
	var cuts atomic.Int64
	var others sync.WaitGroup
	others.Go(func() {
		for backoff.SleepJitter(speaking, 150*time.Millisecond, 0.9) {
			lines[rand.IntN(len(lines))].Cut()
			cuts.Add(1)
		}
	})
	var said, failed, resumed atomic.Int64
	var mu sync.Mutex
	why := make(map[string]int)
	for i := range 12 {
		others.Go(func() {
			tally := speakThrough(speaking, t, at(i))
			said.Add(tally.said)
			failed.Add(tally.failed)
			resumed.Add(tally.resumed)
			mu.Lock()
			defer mu.Unlock()
			for reason, n := range tally.why {
				why[reason] += n
			}
		})
	}
	others.Wait()
	stop()
	nodes.Wait()
	t.Logf("%d cuts, %d resumptions; %d utterances, each with one terminal message, in order; %d of them errors: %v",
		cuts.Load(), resumed.Load(), said.Load(), failed.Load(), why)
	if said.Load() == 0 || resumed.Load() == 0 {
		t.Error("that proves nothing")
	}
}

type tally struct {
	said, failed, resumed int64
	why                   map[string]int
}

// speakThrough speaks until the context ends, whatever becomes of the connection, and holds what comes back against what
// was said: the length of each utterance, in order.
func speakThrough(speaking context.Context, t *testing.T, url string) (got tally) {
	got.why = make(map[string]int)
	var s *client.Session
	for {
		var err error
		if s, err = client.Start(t.Context(), client.Config{URL: url, Log: silent, Start: wire.SessionStart{Langs: []string{"en", "es"}}}); err == nil {
			break
		}
		if !backoff.SleepJitter(t.Context(), 50*time.Millisecond, 0.5) {
			return got
		}
	}
	lengths := make(chan int, 1<<16)
	go func() {
		defer close(lengths)
		for i := 0; speaking.Err() == nil; i++ {
			ms := 60 + 10*(i%7)
			lengths <- 32 * ms
			_, err := s.Write(sound(ms))
			if err = errors.Join(err, s.Commit()); err != nil {
				t.Error(err)
				return
			}
			backoff.SleepJitter(speaking, 250*time.Millisecond, 0.5)
		}
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}()
	ended := false
	for e, err := range s.Events() {
		if err != nil {
			t.Errorf("%v", err)
			return got
		}
		switch e := e.(type) {
		case client.Result:
			want := <-lengths
			if e.UtteranceIndex != got.said || e.TextSrc != fmt.Sprint(want) {
				t.Errorf("result %d of %s, want %d of %d", e.UtteranceIndex, e.TextSrc, got.said, want)
			}
			got.said++
		case client.UtteranceFailed:
			<-lengths
			if e.UtteranceIndex != got.said {
				t.Errorf("error %d, want %d", e.UtteranceIndex, got.said)
			}
			got.said++
			got.failed++
			got.why[string(e.Err.Code)]++
		case client.SessionResumed:
			got.resumed++
		case client.SessionEnded:
			ended = true
			if e.Utterances != got.said {
				t.Errorf("%d utterances, %d terminal messages", e.Utterances, got.said)
			}
		}
	}
	if n := len(lengths); n > 0 || !ended {
		t.Errorf("%d utterances without a terminal message; ended: %v", n, ended)
	}
	return got
}
