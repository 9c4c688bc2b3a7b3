package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

var quiet = slog.New(slog.DiscardHandler)

// speech is a tenth of a second of sound.
var speech = func() []byte {
	pcm := make([]byte, 3200)
	for i := range len(pcm) / 2 {
		v := int16(8000 * math.Sin(float64(i)/5))
		pcm[2*i], pcm[2*i+1] = byte(v), byte(v>>8)
	}
	return pcm
}()

// crew are nodes that take as long as nothing, and note when they had what.
type crew struct {
	mu    sync.Mutex
	notes map[string]note // by job
	alone chan struct{}   // jobs without a session that were done
}

// note is when a node had a job, its sound, and its result.
type note struct{ job, sound, result time.Time }

// nodeName is the name of a node of an instance.
func nodeName(instance, number int) string { return fmt.Sprintf("node-%d-%d", instance, number) }

// hire connects nodes with each of the instances until the test ends, and returns when all instances know them.
func hire(tb testing.TB, all, with []*instance, each, slots int) *crew {
	tb.Helper()
	c := &crew{notes: make(map[string]note), alone: make(chan struct{}, 1)}
	ctx, dismiss := context.WithCancel(context.Background())
	base := &http.Transport{MaxIdleConnsPerHost: 64}
	var working sync.WaitGroup
	tb.Cleanup(func() {
		dismiss()
		working.Wait()
		base.CloseIdleConnections()
	})
	for n, i := range with {
		for k := range each {
			working.Go(func() {
				err := node.Run(ctx, node.Config{
					URL: i.url, ID: nodeName(n, k), Slots: slots, Log: quiet, ShutdownTimeout: time.Second, HTTPClient: &http.Client{Transport: base},
					Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
				}, c.work)
				if err != nil {
					tb.Error(err)
				}
			})
		}
	}
	awaitNodes(tb, all, each*len(with))
	return c
}

func (c *crew) work(ctx context.Context, job *node.Job) (node.Result, error) {
	n := note{job: time.Now()}
	if job.AudioRef != "" {
		c.alone <- struct{}{}
		return node.Result{TextTgt: job.ID}, nil
	}
	if _, err := job.Audio(ctx); err != nil {
		return node.Result{}, err
	}
	n.sound = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	n.result = time.Now()
	c.notes[job.ID] = n
	return node.Result{TextTgt: job.ID}, nil
}

// take returns what was noted of a job, once.
func (c *crew) take(job string) (note, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.notes[job]
	delete(c.notes, job)
	return n, ok
}

// speaker is one session, which says one thing after the other.
type speaker struct {
	s     *client.Session
	heard chan client.Event
	said  int
}

// gather starts sessions with an instance, which end with the test.
func gather(tb testing.TB, with *instance, count int) []*speaker {
	tb.Helper()
	all := make([]*speaker, count)
	for n := range all {
		s, err := client.Start(tb.Context(), client.Config{URL: with.url, Log: quiet, Start: wire.SessionStart{Langs: []string{"en", "es"}}})
		if err != nil {
			tb.Fatal(err)
		}
		p := &speaker{s: s, heard: make(chan client.Event, 1)}
		var listening sync.WaitGroup
		listening.Go(func() {
			defer close(p.heard)
			for e, err := range s.Events() {
				switch e.(type) {
				case client.Result, client.UtteranceFailed:
					p.heard <- e
				}
				if err != nil {
					return
				}
			}
		})
		tb.Cleanup(func() {
			_ = s.Close()
			for range p.heard { // nobody asks any more
			}
			listening.Wait()
		})
		all[n] = p
	}
	return all
}

// trip is how long the parts of an utterance's way took.
type trip struct {
	id                      string // of the job
	job, sound, back, whole time.Duration
}

// say speaks once and returns when the result is there.
func (p *speaker) say(c *crew) (trip, error) {
	p.said++
	if err := p.s.Begin(wire.UtteranceStart{RequestID: fmt.Sprintf("%s.%d", p.s.ID(), p.said)}); err != nil {
		return trip{}, err
	}
	if _, err := p.s.Write(speech); err != nil {
		return trip{}, err
	}
	said := time.Now()
	if err := p.s.Commit(); err != nil {
		return trip{}, err
	}
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	select {
	case e := <-p.heard:
		now := time.Now()
		r, ok := e.(client.Result)
		if !ok {
			return trip{}, fmt.Errorf("utterance %d ended with %+v", p.said, e)
		}
		n, ok := c.take(r.JobID)
		if !ok || r.TextTgt != r.JobID {
			return trip{}, fmt.Errorf("the result of %s is not of its node", r.JobID)
		}
		return trip{id: r.JobID, job: n.job.Sub(said), sound: n.sound.Sub(said), back: now.Sub(n.result), whole: now.Sub(said)}, nil
	case <-limit.C:
		return trip{}, fmt.Errorf("utterance %d has no result after 20 s", p.said)
	}
}

// converse lets speakers say something so many times each, beside one another, and pause after each for about so long.
func converse(tb testing.TB, c *crew, speakers []*speaker, times int, pausing time.Duration) []trip {
	tb.Helper()
	var mu sync.Mutex
	var trips []trip
	var all sync.WaitGroup
	for _, p := range speakers {
		all.Go(func() {
			for range times {
				if pausing > 0 {
					backoff.SleepJitter(tb.Context(), pausing, 0.5)
				}
				t, err := p.say(c)
				if err != nil {
					tb.Error(err)
					return
				}
				mu.Lock()
				trips = append(trips, t)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if tb.Failed() {
		tb.FailNow()
	}
	return trips
}
