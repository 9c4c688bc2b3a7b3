package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// slowPaths restarts the instance so that steps that take longer than after are slow. It returns a function that describes the warnings
// since the last call, "path took_ms", and checks that each names a session and a job and that it was counted.
func (h *harness) slowPaths(after time.Duration, st session.Store, jobs session.Jobs) func() []string {
	var log lockedBuffer
	h.cfg.SlowAfter, h.metrics, h.log = after, telemetry.New(), slog.New(slog.NewJSONHandler(&log, nil))
	h.restartWith(st, jobs)
	logged := 0.0
	return func() []string {
		synctest.Wait()
		log.mu.Lock()
		defer log.mu.Unlock()
		var list []string
		for line := range strings.Lines(log.buf.String()) {
			var r struct {
				Msg, Path string
				Session   string `json:"session_id"`
				Job       string `json:"job_id"`
				Took      int64  `json:"took_ms"`
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				h.t.Fatal(err)
			}
			if r.Msg != "slow session path" {
				continue
			}
			if r.Session == "" || r.Job == "" {
				h.t.Errorf("the warning names no session or no job: %s", line)
			}
			list = append(list, fmt.Sprint(r.Path, " ", r.Took))
		}
		log.buf.Reset()
		logged += float64(len(list))
		counted := 0.0
		for _, p := range []telemetry.SessionPath{telemetry.PathSegment, telemetry.PathDispatch, telemetry.PathResult} {
			counted += float64(h.metrics.SlowPath.WithLabelValues(string(p)).Load())
		}
		if counted != logged {
			h.t.Errorf("%v steps were counted, and %v logged", counted, logged)
		}
		return list
	}
}

// wantSlow checks the warnings about slow steps.
func wantSlow(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slow steps (-want +got):\n%s", diff)
	}
}

// slowDispatcher takes its time, and says that it waited for a free slot for a part of it.
type slowDispatcher struct {
	*fakeDispatcher
	takes, waits time.Duration
}

func (d *slowDispatcher) Dispatch(ctx context.Context, r dispatch.Request) (dispatch.Placement, error) {
	time.Sleep(d.takes)
	p, err := d.fakeDispatcher.Dispatch(ctx, r)
	p.Waited = d.waits
	return p, err
}

func TestSlowDispatchIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		takes, waits time.Duration
		want         []string
	}{
		"fast":                     {50 * time.Millisecond, 0, nil},
		"slow":                     {51 * time.Millisecond, 0, []string{"session_dispatch 51"}},
		"waited for a slot":        {5 * time.Second, 4950 * time.Millisecond, nil},
		"slow, beside the waiting": {5 * time.Second, 4900 * time.Millisecond, []string{"session_dispatch 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				slow := h.slowPaths(50*time.Millisecond, h.store, &slowDispatcher{h.dispatcher, tc.takes, tc.waits})
				s, _ := h.start()
				h.stream(s, tone(300))
				h.send(s, session.AudioFrame{Final: true})
				time.Sleep(6 * time.Second)
				wantSlow(t, slow(), tc.want...)
			})
		})
	}
}

// An utterance that waits for the placement of the one before it is measured from then on.
func TestDispatchBehindAnotherIsNotSlow(t *testing.T) {
	run(t, func(h *harness) {
		slow := h.slowPaths(50*time.Millisecond, h.store, &slowDispatcher{h.dispatcher, time.Second, 960 * time.Millisecond})
		s, _ := h.start()
		for range 2 {
			h.send(s, session.AudioFrame{Data: tone(100)})
			h.send(s, session.AudioFrame{Final: true})
		}
		time.Sleep(3 * time.Second)
		if n := len(h.dispatcher.jobs()); n != 2 {
			t.Fatalf("%d jobs, want 2", n)
		}
		wantSlow(t, slow())
	})
}

// A slow store delays the dispatch: the session is saved before it.
func TestSlowStoreIsReported(t *testing.T) {
	run(t, func(h *harness) {
		slow := h.slowPaths(50*time.Millisecond, slowSaves{h.store}, h.dispatcher)
		s, _ := h.start()
		h.commitSlowly(s)
		wantSlow(t, slow(), "session_dispatch 70")
	})
}

// slowSaves is a store that takes 70 ms to save a session.
type slowSaves struct{ store.Store }

func (s slowSaves) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	time.Sleep(70 * time.Millisecond)
	return s.Store.SaveSession(ctx, p)
}

// commitSlowly commits an utterance and waits until it was dispatched by a slow store.
func (h *harness) commitSlowly(s *session.Connection) {
	h.send(s, session.AudioFrame{Data: tone(100)})
	h.send(s, session.AudioFrame{Final: true})
	time.Sleep(time.Second)
	synctest.Wait()
}

// The time of a result is counted from its arrival. A result that waits for an earlier one, or for its client, is not measured.
func TestSlowResultIsReported(t *testing.T) {
	run(t, func(h *harness) {
		slow := h.slowPaths(50*time.Millisecond, h.store, h.dispatcher)
		s, conn := h.start()
		jobs := []core.JobID{h.commit(s), h.commit(s), h.commit(s), h.commit(s)}
		end := func(i int, ago time.Duration) {
			t.Helper()
			job := endedJob(jobs[i], h.dispatcher.placed[jobs[i]], core.StateDone, "", `{"text_tgt":"x"}`)
			received := time.Now().Add(-ago)
			if ago < 0 {
				received = time.Time{}
			}
			if err := h.registry.JobEnded(t.Context(), job, received); err != nil {
				t.Fatal(err)
			}
		}
		end(1, time.Minute) // it waits for the first
		end(0, 50*time.Millisecond)
		wantSlow(t, slow())
		end(2, 60*time.Millisecond)
		wantSlow(t, slow(), "session_result 60")
		end(3, -1) // it did not end by a message of a node
		wantSlow(t, slow())
		wantTerminals(t, conn, "0 x", "1 x", "2 x", "3 x")
	})
}

// The instance that receives a result for a session of another one measures its own part.
func TestSlowResultForAnotherInstanceIsReported(t *testing.T) {
	runTwoInstances(t, func(h *harness, b *session.Registry) {
		s, conn := h.start()
		job := h.commit(s)
		h.registry = b // restartWith would close the one with the session
		slowB := h.slowPaths(50*time.Millisecond, h.store, h.dispatcher)
		if err := h.registry.JobEnded(t.Context(), endedJob(job, h.dispatcher.placed[job], core.StateDone, "", `{"text_tgt":"x"}`), time.Now().Add(-80*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		wantSlow(t, slowB(), "session_result 80")
		wantTerminals(t, conn, "0 x")
	})
}

// distantConn answers pings late.
type distantConn struct {
	*fakeConn
	session *session.Connection
	delay   time.Duration
}

func (c *distantConn) Ping(payload []byte) bool {
	payload = bytes.Clone(payload)
	time.AfterFunc(c.delay, func() { c.session.Pong(payload) })
	return true
}

// TestCommitIsMeasuredFromWhereItWasDue commits utterances in every way with a threshold that everything exceeds: neither the pause nor the
// way of the ping to the client and back counts as the scheduler's time.
func TestCommitIsMeasuredFromWhereItWasDue(t *testing.T) {
	for reason, end := range map[string]func(h *harness, s *session.Connection){
		"pause":        func(*harness, *session.Connection) { time.Sleep(3 * time.Second) },
		"silence":      func(h *harness, s *session.Connection) { h.stream(s, silence(1000)) },
		"max_duration": func(h *harness, s *session.Connection) { h.stream(s, tone(10_000)) },
		"manual":       func(h *harness, s *session.Connection) { h.send(s, session.AudioFrame{Final: true}) },
		"end":          func(_ *harness, s *session.Connection) { s.End() },
	} {
		t.Run(reason, func(t *testing.T) {
			run(t, func(h *harness) {
				slow := h.slowPaths(-1, h.store, h.dispatcher)
				conn := &distantConn{fakeConn: &fakeConn{}, delay: 700 * time.Millisecond}
				s, err := h.registry.Start(t.Context(), session.StartParams{Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}, conn)
				if err != nil {
					t.Fatal(err)
				}
				conn.session = s
				h.stream(s, tone(500))
				end(h, s)
				synctest.Wait()
				wantCommitted(t, conn.fakeConn, reason)
				wantSlow(t, slow(), "session_segment 0", "session_dispatch 0")
			})
		})
	}
}
