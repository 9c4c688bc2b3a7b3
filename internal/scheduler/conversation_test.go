package scheduler_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

var silent = slog.New(slog.DiscardHandler)

// sound is so many milliseconds of a tone, at 16 kHz.
func sound(ms int) []byte {
	pcm := make([]byte, 32*ms)
	for i := range len(pcm) / 2 {
		v := int16(8000 * math.Sin(float64(i)/5))
		pcm[2*i], pcm[2*i+1] = byte(v), byte(v>>8)
	}
	return pcm
}

// listen runs a scheduler until the test ends and returns its address.
func listen(t *testing.T, cfg config.Config) string {
	t.Helper()
	s := newSchedulerWith(t, cfg, nil)
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// TestConversations: people speak through the client, nodes work through the node package, everything in between is
// the real thing.
func TestConversations(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 5
	url := listen(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	var most, running atomic.Int64
	for i := range 3 {
		others.Go(func() {
			err := node.Run(ctx, node.Config{
				URL: url, ID: fmt.Sprintf("node-%d", i), Slots: 4, Log: silent,
				Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}},
			}, func(ctx context.Context, job *node.Job) (node.Result, error) {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				audio, err := job.Audio(ctx)
				if err != nil {
					return node.Result{}, err
				}
				job.Partial(node.Partial{Stage: "asr", TextSrc: "…"})
				if rand.IntN(10) == 0 {
					return node.Result{}, node.Fail("BAD_LUCK")
				}
				return node.Result{TextSrc: fmt.Sprint(len(audio)), TextTgt: strings.ToUpper(job.Src), Speech: []byte("speech")}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	var speakers sync.WaitGroup
	for i := range 4 {
		speakers.Go(func() { converse(t, url, i) })
	}
	speakers.Wait()
	t.Logf("at most %d jobs at once", most.Load())
	counted(t, url, map[string]float64{
		`lingua_sessions_total{event="started"}`:   4,
		`lingua_sessions_total{event="ended"}`:     4,
		`lingua_utterances_total{reason="manual"}`: 24,
		`lingua_connected_nodes`:                   3,
		`lingua_audio_held_bytes`:                  0,
	})
}

// counted checks what /metrics says. A figure that is not there is 0.
func counted(t *testing.T, url string, want map[string]float64) {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make(map[string]float64)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if _, ok := want[name]; ok {
			got[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %v, want %v", name, got[name], n)
		}
	}
}

// converse has one conversation of six utterances and checks what comes back.
func converse(t *testing.T, url string, number int) {
	s, err := client.Start(t.Context(), client.Config{URL: url, Log: silent, Start: wire.SessionStart{
		Langs: []string{"en", "es"}, Partials: true, TTS: true,
	}})
	if err != nil {
		t.Error(err)
		return
	}
	const utterances = 6
	go func() {
		for i := range utterances {
			if err := s.Begin(wire.UtteranceStart{SrcLang: []string{"en", "es"}[i%2]}); err != nil {
				t.Error(err)
			}
			if _, err := s.Write(sound(100 + 10*i)); err != nil {
				t.Error(err)
			}
			if err := s.Commit(); err != nil {
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
			t.Errorf("speaker %d: %v", number, err)
			return
		}
		switch e := e.(type) {
		case client.Result:
			want := fmt.Sprint(3200 + 320*next)
			if e.UtteranceIndex != next || e.TextSrc != want || e.TextTgt != []string{"EN", "ES"}[next%2] {
				t.Errorf("speaker %d: result %d is %+v, want %s", number, next, e, want)
			}
			next++
		case client.UtteranceFailed:
			if e.UtteranceIndex != next {
				t.Errorf("speaker %d: %+v, want %d", number, e, next)
			}
			next++
		case client.SpeechChunk:
			speech++
		case client.SessionEnded:
			if e.Utterances != utterances || e.Results+e.Errors != utterances {
				t.Errorf("speaker %d: %+v", number, e)
			}
		}
	}
	if next != utterances || speech == 0 {
		t.Errorf("speaker %d: %d terminal messages and %d pieces of speech", number, next, speech)
	}
}
