package cluster

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// tone is 100 ms of audio.
var tone = clustertest.Tone(16_000)

// nodeFleet is nodes that finish at once and record the times of each job.
type nodeFleet struct {
	mu         sync.Mutex
	times      map[string]jobTimes // by job
	dispatched chan struct{}       // signals each finished job without a session
}

// jobTimes is when a node had a job, its audio and its result.
type jobTimes struct{ assigned, audio, finished time.Time }

// nodeName returns the name of a node that is connected to an instance.
func nodeName(instance, number int) string { return fmt.Sprintf("node-%d-%d", instance, number) }

// startNodes connects nodes to each of the instances until the end of the test, and returns when all instances know them.
func startNodes(tb testing.TB, instances, on []*instance, each, slots int) *nodeFleet {
	tb.Helper()
	f := &nodeFleet{times: make(map[string]jobTimes), dispatched: make(chan struct{}, 1)}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	tb.Cleanup(transport.CloseIdleConnections)
	var nodes []node.Config
	for n, i := range on {
		for k := range each {
			nodes = append(nodes, node.Config{URL: i.url, ID: nodeName(n, k), Slots: slots, HTTPClient: &http.Client{Transport: transport}})
		}
	}
	fleet.StartNodes(tb, f.handleJob, nodes...)
	waitNodes(tb, instances, each*len(on))
	return f
}

func (f *nodeFleet) handleJob(ctx context.Context, job *node.Job) (node.Result, error) {
	n := jobTimes{assigned: time.Now()}
	if job.AudioRef != "" {
		f.dispatched <- struct{}{}
		return node.Result{TextTgt: job.ID}, nil
	}
	if _, err := job.Audio(ctx); err != nil {
		return node.Result{}, err
	}
	n.audio = time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	n.finished = time.Now()
	f.times[job.ID] = n
	return node.Result{TextTgt: job.ID}, nil
}

// takeTimes returns and removes the times of a job.
func (f *nodeFleet) takeTimes(job string) (jobTimes, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.times[job]
	delete(f.times, job)
	return n, ok
}

// testSession is a session that counts its utterances.
type testSession struct {
	fleet.Session
	sent int
}

// startSessions starts sessions on an instance, which end with the test.
func startSessions(tb testing.TB, on *instance, count int) []*testSession {
	tb.Helper()
	sessions := make([]*testSession, count)
	for n := range sessions {
		sessions[n] = &testSession{Session: fleet.StartSession(tb, client.Config{URL: on.url})}
	}
	return sessions
}

// latency is how long the parts of the way of an utterance took.
type latency struct {
	job                                string
	toNode, withAudio, fromNode, total time.Duration
}

// sendUtterance sends an utterance and waits for its result.
func (s *testSession) sendUtterance(f *nodeFleet) (latency, error) {
	s.sent++
	if err := s.Begin(wire.UtteranceStart{RequestID: fmt.Sprintf("%s.%d", s.ID(), s.sent)}); err != nil {
		return latency{}, err
	}
	if _, err := s.Write(tone); err != nil {
		return latency{}, err
	}
	sentAt := time.Now()
	if err := s.Commit(); err != nil {
		return latency{}, err
	}
	limit := time.AfterFunc(20*time.Second, func() { _ = s.Close() })
	defer limit.Stop()
	r, err := s.Result()
	now := time.Now()
	if err != nil {
		return latency{}, fmt.Errorf("utterance %d after %v: %w", s.sent, now.Sub(sentAt), err)
	}
	n, ok := f.takeTimes(r.JobID)
	if !ok || r.TextTgt != r.JobID {
		return latency{}, fmt.Errorf("the result of %s is not the one of its node", r.JobID)
	}
	return latency{job: r.JobID, toNode: n.assigned.Sub(sentAt), withAudio: n.audio.Sub(sentAt), fromNode: now.Sub(n.finished), total: now.Sub(sentAt)}, nil
}

// runUtterances has sessions send a number of utterances each, all sessions in parallel, with a pause of the given mean
// before each.
func runUtterances(tb testing.TB, f *nodeFleet, sessions []*testSession, times int, pause time.Duration) []latency {
	tb.Helper()
	var mu sync.Mutex
	var list []latency
	var running sync.WaitGroup
	for _, s := range sessions {
		running.Go(func() {
			for range times {
				if pause > 0 {
					run.SleepJitter(tb.Context(), pause, 0.5)
				}
				t, err := s.sendUtterance(f)
				if err != nil {
					tb.Error(err)
					return
				}
				mu.Lock()
				list = append(list, t)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if tb.Failed() {
		tb.FailNow()
	}
	return list
}
