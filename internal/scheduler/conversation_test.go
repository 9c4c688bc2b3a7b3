package scheduler_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestConversationsEndToEnd: clients use the client package, nodes the node package, and everything in between is
// real.
func TestConversationsEndToEnd(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 5
	url := startScheduler(t, cfg)
	var maxRunning, running atomic.Int64
	fleet.StartNodes(t, func(ctx context.Context, job *node.Job) (node.Result, error) {
		maxRunning.Store(max(maxRunning.Load(), running.Add(1)))
		defer running.Add(-1)
		audio, err := job.Audio(ctx)
		if err != nil {
			return node.Result{}, err
		}
		job.Partial(node.Partial{Stage: "asr", TextSrc: "…"})
		if rand.IntN(10) == 0 {
			return node.Result{}, node.Fail("RANDOM_FAILURE")
		}
		return node.Result{TextSrc: fmt.Sprint(len(audio)), TextTgt: strings.ToUpper(job.Src), Speech: []byte("speech")}, nil
	}, fleet.Configs(3, func(i int) node.Config {
		return node.Config{
			URL: url, ID: fmt.Sprintf("node-%d", i), Slots: 4,
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}},
		}
	})...)
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() { runConversation(t, url, i) })
	}
	clients.Wait()
	t.Logf("at most %d jobs at once", maxRunning.Load())
	awaitMetrics(t, url, map[string]float64{
		`lingua_session_events_total{event="started"}`: 4,
		`lingua_session_events_total{event="ended"}`:   4,
		`lingua_utterances_total{reason="manual"}`:     24,
		`lingua_connected_nodes`:                       3,
		`lingua_audio_held_bytes`:                      0,
	})
}

// awaitMetrics waits until /metrics has these values: what a client sees may be counted after it. An absent value is 0.
func awaitMetrics(t *testing.T, url string, want map[string]float64) {
	t.Helper()
	diff := ""
	for began := time.Now(); time.Since(began) < waitLimit; run.Sleep(t.Context(), pollInterval(time.Since(began))) {
		if diff = cmp.Diff(want, readMetrics(t, url, want)); diff == "" {
			return
		}
	}
	t.Errorf("metrics (-want +got):\n%s", diff)
}

// readMetrics reads some values of /metrics.
func readMetrics(t *testing.T, url string, names map[string]float64) map[string]float64 {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make(map[string]float64)
	for name := range names {
		got[name] = 0
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if _, ok := names[name]; ok {
			got[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return got
}

// runConversation runs a session of six utterances and checks the results.
func runConversation(t *testing.T, url string, number int) {
	s, err := fleet.Start(t.Context(), client.Config{URL: url, Start: wire.SessionStart{Partials: true, TTS: true}})
	if err != nil {
		t.Error(err)
		return
	}
	const utterances = 6
	go func() {
		for i := range utterances {
			if err := errors.Join(s.Begin(wire.UtteranceStart{SrcLang: []string{"en", "es"}[i%2]}), s.Utter(tone(100+10*i))); err != nil {
				t.Error(err)
			}
		}
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}()
	next, speech := int64(0), 0
	for e, err := range s.Events() {
		if err != nil {
			t.Errorf("client %d: %v", number, err)
			return
		}
		switch e := e.(type) {
		case client.Result:
			want := fmt.Sprint(3200 + 320*next)
			if e.UtteranceIndex != next || e.TextSrc != want || e.TextTgt != []string{"EN", "ES"}[next%2] {
				t.Errorf("client %d: result %d is %+v, want %s", number, next, e, want)
			}
			next++
		case client.UtteranceFailed:
			if e.UtteranceIndex != next {
				t.Errorf("client %d: %+v, want %d", number, e, next)
			}
			next++
		case client.SpeechChunk:
			speech++
		case client.SessionEnded:
			if e.Utterances != utterances || e.Results+e.Errors != utterances {
				t.Errorf("client %d: %+v", number, e)
			}
		}
	}
	if next != utterances || speech == 0 {
		t.Errorf("client %d: %d terminal messages and %d pieces of speech", number, next, speech)
	}
}

var cutFor = flag.Duration("cut-for", 3*time.Second, "how long TestCutConnections cuts connections")

// TestCutConnections cuts connections of clients and nodes at random. Every utterance ends in exactly one terminal
// message, in order. In full:
//
//	go test -count=1 -v -run TestCutConnections ./internal/scheduler -cut-for 60s
func TestCutConnections(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 5
	cfg.Scheduler.Nodes.HeartbeatIntervalMS = 500
	address := strings.TrimPrefix(startScheduler(t, cfg), "http://")
	var proxies []*redistest.Proxy // each with some of the connections
	for range 8 {
		proxies = append(proxies, redistest.StartProxy(t, address))
	}
	at := func(i int) string { return "http://" + proxies[i%len(proxies)].Addr() }

	fleet.StartNodes(t, func(ctx context.Context, job *node.Job) (node.Result, error) {
		audio, err := job.Audio(ctx)
		if err != nil {
			return node.Result{}, err
		}
		run.Sleep(ctx, rand.N(200*time.Millisecond))
		return node.Result{TextSrc: fmt.Sprint(len(audio))}, nil
	}, fleet.Configs(6, func(i int) node.Config { return node.Config{URL: at(i), ID: fmt.Sprintf("node-%d", i), Slots: 16} })...)
	speaking, stopSpeaking := context.WithCancel(t.Context())
	defer stopSpeaking()
	began := time.Now()
	var cuts atomic.Int64
	var others sync.WaitGroup
	others.Go(func() {
		for run.SleepJitter(speaking, 150*time.Millisecond, 0.9) {
			proxies[rand.IntN(len(proxies))].Cut()
			cuts.Add(1)
		}
	})
	var counts utteranceCounts
	for i := range 12 {
		others.Go(func() { speakWhileCut(speaking, t, at(i), &counts) })
	}
	waitUntil(t, "utterances and cuts of their connections", *cutFor+waitLimit, func() bool {
		return time.Since(began) >= *cutFor && counts.utterances.Load() > 0 && counts.resumed.Load() > 0
	})
	stopSpeaking()
	others.Wait()
	t.Logf("%d cuts, %d resumptions; %d utterances, each with one terminal message, in order; %d of them errors",
		cuts.Load(), counts.resumed.Load(), counts.utterances.Load(), counts.failed.Load())
}

// utteranceCounts are the utterances of all clients that have ended, and how often a session was resumed.
type utteranceCounts struct{ utterances, failed, resumed atomic.Int64 }

// speakWhileCut sends utterances until the context ends, whatever happens to the connection, and compares the results with what
// was sent: the length of each utterance, in order.
func speakWhileCut(speaking context.Context, t *testing.T, url string, counts *utteranceCounts) {
	var s fleet.Session
	if !(run.Backoff{Min: 50 * time.Millisecond, Max: 50 * time.Millisecond}.Retry(t.Context(), func() (err error) {
		s, err = fleet.Start(t.Context(), client.Config{URL: url})
		return err
	})) {
		return
	}
	lengths := make(chan int, 1<<16)
	go func() {
		defer close(lengths)
		for i := 0; speaking.Err() == nil; i++ {
			ms := 60 + 10*(i%7)
			lengths <- 32 * ms
			if err := s.Utter(tone(ms)); err != nil {
				t.Error(err)
				return
			}
			run.SleepJitter(speaking, 250*time.Millisecond, 0.5)
		}
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}()
	ended, terminal := false, int64(0)
	for e, err := range s.Events() {
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		switch e := e.(type) {
		case client.Result:
			want := <-lengths
			if e.UtteranceIndex != terminal || e.TextSrc != fmt.Sprint(want) {
				t.Errorf("result %d of %s, want %d of %d", e.UtteranceIndex, e.TextSrc, terminal, want)
			}
			terminal++
			counts.utterances.Add(1)
		case client.UtteranceFailed:
			<-lengths
			if e.UtteranceIndex != terminal {
				t.Errorf("error %d, want %d", e.UtteranceIndex, terminal)
			}
			terminal++
			counts.utterances.Add(1)
			counts.failed.Add(1)
		case client.SessionResumed:
			counts.resumed.Add(1)
		case client.SessionEnded:
			ended = true
			if e.Utterances != terminal {
				t.Errorf("%d utterances, %d terminal messages", e.Utterances, terminal)
			}
		}
	}
	if n := len(lengths); n > 0 || !ended {
		t.Errorf("%d utterances without a terminal message; ended: %v", n, ended)
	}
}
