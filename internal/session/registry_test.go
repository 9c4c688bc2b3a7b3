package session_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// sessionModel is one run of random steps over two instances.
type sessionModel struct {
	*harness
	second     time.Duration // how long a second of the sessions' configuration takes
	registries [2]*session.Registry
	live       []*modelClient
	all        []*modelClient
	placedJobs []core.JobID
}

// modelClient is one session as its client sees it.
type modelClient struct {
	name       string // of all its utterances
	connection *session.Connection
	ref        core.SessionRef
	token      string
	conns      []*fakeConn
}

// checkIncarnations takes random steps and checks that every message belongs to its session.
func checkIncarnations(h *harness, rt *rapid.T, second time.Duration) {
	h.cfg.Resume, h.cfg.Idle, h.cfg.Wait, h.cfg.Job, h.cfg.Pause = 4*second, 4*second, second, 2*second, 100*second
	c := &sessionModel{harness: h, second: second}
	for i := range c.registries {
		c.registries[i] = h.newRegistry(h.store, h.dispatcher)
		defer c.registries[i].Close()
	}
	for range rapid.IntRange(10, 40).Draw(rt, "steps") {
		c.step(rt)
	}
	for _, client := range c.all {
		c.check(rt, client)
	}
}

func (c *sessionModel) step(rt *rapid.T) {
	registry := c.registries[rapid.IntRange(0, len(c.registries)-1).Draw(rt, "instance")]
	switch rapid.SampledFrom([]string{"start", "start", "speak", "speak", "finish", "finish", "disconnect", "resume", "end", "wait", "expire"}).Draw(rt, "step") {
	case "start":
		tenant := rapid.SampledFrom([]core.TenantID{"acme", "beta"}).Draw(rt, "tenant")
		name := rapid.SampledFrom([]core.SessionID{"session-1", "session-2"}).Draw(rt, "name")
		conn := &fakeConn{}
		p := session.StartParams{ID: name, Tenant: tenant, Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}
		if connection, err := registry.Start(c.t.Context(), p, conn); err == nil {
			client := &modelClient{name: fmt.Sprintf("c%d", len(c.all)), connection: connection, ref: connection.Ref(), token: conn.resumeToken(c.t), conns: []*fakeConn{conn}}
			c.live, c.all = append(c.live, client), append(c.all, client)
		}
	case "speak":
		if client := c.drawClient(rt); client != nil {
			_ = client.connection.Begin(client.name, "", "")
			_ = client.connection.Audio(session.AudioFrame{Data: tone(100)})
			_ = client.connection.Audio(session.AudioFrame{Final: true})
			c.settle()
			c.placedJobs = c.dispatcher.jobs()
		}
	case "finish":
		if len(c.placedJobs) > 0 {
			id := rapid.SampledFrom(c.placedJobs).Draw(rt, "job")
			c.dispatcher.mu.Lock()
			spec := c.dispatcher.placed[id]
			c.dispatcher.mu.Unlock()
			job := endedJob(id, spec, core.StateDone, "", fmt.Sprintf(`{"text_tgt":%q}`, spec.Utterance.ID))
			if err := registry.JobEnded(c.t.Context(), job, time.Now()); err != nil {
				rt.Fatal(err)
			}
		}
	case "disconnect":
		if client := c.drawClient(rt); client != nil {
			client.connection.Detach()
		}
	case "resume":
		if client := c.drawClient(rt); client != nil {
			conn := &fakeConn{}
			p := session.ResumeParams{Session: client.ref.Name, Tenant: client.ref.Tenant, Token: client.token}
			connection, err := registry.Resume(c.t.Context(), p, conn)
			if client.conns = append(client.conns, conn); err == nil {
				client.connection = connection
				if connection.Ref() != client.ref {
					rt.Fatalf("%v was resumed as %v", client.ref, connection.Ref())
				}
			}
		}
	case "end":
		if client := c.drawClient(rt); client != nil {
			client.connection.End()
		}
	case "wait":
		time.Sleep(c.second / 2)
	case "expire":
		time.Sleep(12 * c.second)
	}
	c.settle()
}

// settle waits until what was begun is done, as far as that is possible on a real clock.
func (c *sessionModel) settle() {
	if c.second == time.Second {
		synctest.Wait()
		return
	}
	time.Sleep(c.second)
}

func (c *sessionModel) drawClient(rt *rapid.T) *modelClient {
	if len(c.live) == 0 {
		return nil
	}
	return rapid.SampledFrom(c.live).Draw(rt, "session")
}

// check checks that every message that a client received belongs to its session.
func (c *sessionModel) check(rt *rapid.T, client *modelClient) {
	for _, conn := range client.conns {
		for _, m := range conn.received("utterance_committed", "result", "error", "partial") {
			for _, field := range []string{"utterance_id", "text_tgt"} {
				if of, ok := m[field]; ok && of != client.name {
					rt.Fatalf("session %s was sent a %v of %v", client.name, m["type"], of)
				}
			}
		}
	}
}

// A request_id that another session of the tenant has used with other content is refused, and the job of that session keeps its audio.
func TestRequestIDOfAnotherSessionIsRefused(t *testing.T) {
	run(t, func(h *harness) {
		a, _ := h.start(func(in *wire.SessionStart) { in.Partials = true })
		b, connB := h.start(func(in *wire.SessionStart) { in.Partials = true })
		h.commitRequest(a, tone(300))
		job := h.dispatcher.jobs()[0]
		h.dispatcher.refusal = wire.Errorf(wire.RequestMismatch, "the error of dispatch for a request_id with other content")
		h.commitRequest(b, tone(500))
		wantTerminals(t, connB, "0 REQUEST_MISMATCH")
		if clip := h.registry.AudioBuffer().Clip(job); clip == nil {
			t.Error("the audio of the first session's job, which still runs, is gone")
		}
	})
}

// Partial results and audio stay in their session while a second session uses the same request_id.
func TestPartialsStayInTheirSession(t *testing.T) {
	run(t, func(h *harness) {
		slow := &gatedDispatcher{fakeDispatcher: h.dispatcher, gate: make(chan struct{})}
		h.restartWith(h.store, slow)
		a, connA := h.start(func(in *wire.SessionStart) { in.Partials = true })
		b, connB := h.start(func(in *wire.SessionStart) { in.Partials = true })
		h.commitRequest(a, tone(300))
		job := connA.last(t, "utterance_committed")["job_id"].(string)
		slow.gate <- struct{}{}
		synctest.Wait()
		h.commitRequest(b, tone(500)) // is being placed
		h.registry.DeliverPartial(&wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: job, AttemptID: 1}, Rev: 1, TextSrc: "a secret"})
		if got := connB.received("partial"); len(got) != 0 {
			t.Errorf("the second session receives partial results of the first: %v", got)
		}
		if clip := h.registry.AudioBuffer().Clip(core.JobID(job)); clip == nil || len(clip.Data) != len(tone(300)) {
			t.Errorf("a retry of the first session's job would have the second session's audio")
		}
		close(slow.gate)
		synctest.Wait()
	})
}

// A draining instance refuses to start or resume sessions.
func TestDrainingInstanceRefusesSessions(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		token := conn.resumeToken(t)
		s.Detach()
		h.registry.GoAway(h.t.Context(), "this instance is stopping", 100*time.Millisecond)
		var e *wire.Error
		if _, _, err := h.resume(s, token, 0); !errors.As(err, &e) || e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("resume: %v", err)
		}
		p := session.StartParams{Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}
		if _, err := h.registry.Start(h.t.Context(), p, &fakeConn{}); !errors.As(err, &e) || e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("start: %v", err)
		}
	})
}

// The result of a session that was not resumed is appended after its state has expired. Another tenant that uses
// the name must not receive it.
func TestLateResultIsNotDeliveredToAnotherTenant(t *testing.T) {
	run(t, func(h *harness) {
		h.cfg.Idle, h.cfg.Wait = time.Second, time.Second
		h.restartWith(h.store, h.dispatcher)
		a, _ := h.startNamed("acme", "session-x")
		job := h.commit(a)
		a.Detach()
		time.Sleep(h.cfg.Resume + h.cfg.Job + 10*time.Second) // it can no longer be resumed
		h.complete(job, "a secret of acme")
		b, conn := h.startNamed("beta", "session-x")
		h.complete(h.commit(b), "of beta")
		synctest.Wait()
		wantTerminals(t, conn, "0 of beta")
	})
}

// A name is used again within its tenant, for utterances with as many frames as before: the default request ids are
// the same, and the jobs are not.
func TestRestartedNameMakesOtherJobs(t *testing.T) {
	run(t, func(h *harness) {
		first, conn := h.startNamed("acme", "session-x")
		one := h.commit(first)
		h.complete(one, "of the first")
		first.End()
		synctest.Wait()
		conn.last(t, "session_ended")
		time.Sleep(h.cfg.Resume + 2*time.Second)
		second, nextConn := h.startNamed("acme", "session-x")
		two := h.commit(second)
		if one == two || first.Ref() == second.Ref() {
			t.Fatalf("the second session has the job %s of the first", two)
		}
		h.complete(two, "of the second")
		wantTerminals(t, nextConn, "0 of the second")
	})
}

func TestTenantsUseTheSameNameAtTheSameTime(t *testing.T) {
	run(t, func(h *harness) {
		a, connA := h.startNamed("acme", "session-1")
		b, connB := h.startNamed("beta", "session-1")
		jobA, jobB := h.commit(a), h.commit(b)
		h.complete(jobB, "of beta")
		h.complete(jobA, "of acme")
		wantTerminals(t, connA, "0 of acme")
		wantTerminals(t, connB, "0 of beta")
	})
}

// A start that is repeated with the client's own resume token is the same incarnation of the session.
func TestRepeatedStartKeepsItsIncarnation(t *testing.T) {
	run(t, func(h *harness) {
		own := func(s *wire.SessionStart) { s.SessionID, s.ResumeToken = "session-1", "a token of my own" }
		start := func() *session.Connection {
			request := &wire.SessionStart{}
			own(request)
			s, err := h.registry.Start(t.Context(), session.StartParams{ID: "session-1", Langs: [2]core.Lang{"en", "es"}, Request: request}, &fakeConn{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		first := start()
		resumed := start()
		h.replaceInstance()
		elsewhere := start()
		if first.Ref() != resumed.Ref() || first.Ref() != elsewhere.Ref() {
			t.Errorf("the starts are %v, %v and %v", first.Ref(), resumed.Ref(), elsewhere.Ref())
		}
	})
}

// TestNoMessageOfAnotherIncarnation starts, disconnects, resumes, ends and restarts sessions with a few names and two tenants
// at random, on two instances, while jobs end at any time on any instance.
func TestNoMessageOfAnotherIncarnation(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		run(t, func(h *harness) {
			rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) { checkIncarnations(h, rt, time.Second) })
		})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		address, err := redisstore.ParseAddress(redistest.Start(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		st, err := redisstore.Open(t.Context(), redisstore.Options{
			Address: address, Prefix: "lingua", Timeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler), Timing: store.Timing{
				Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		h := newHarness(t, st)
		defer func() { h.registry.Close() }()
		rounds := 0
		rapid.Check(t, func(rt *rapid.T) {
			if rounds++; rounds <= 10 { // these wait in real time
				checkIncarnations(h, rt, 10*time.Millisecond)
			}
		})
	})
}

// GoAway asks every client to reconnect and closes the connections that are left, not all at once. No result is lost.
func TestGoAwayClosesConnectionsOverTime(t *testing.T) {
	run(t, func(h *harness) {
		const within = 10 * time.Second
		s, goes := h.start()
		token := goes.resumeToken(t)
		job := h.commit(s)
		var stay []*fakeConn
		for range 20 {
			_, conn := h.start()
			stay = append(stay, conn)
		}
		began := time.Now()
		returned := make(chan struct{})
		go func() {
			h.registry.GoAway(h.t.Context(), "this instance is stopping", within)
			close(returned)
		}()
		synctest.Wait()
		if m := goes.last(t, "go_away"); m["reconnect_ms"] != 10_000.0 {
			t.Errorf("go_away: %v", m)
		}
		goes.disconnect() // this client reconnects at once
		s.Detach()
		closings := make(map[time.Duration]int)
		for left := len(stay); left > 0; time.Sleep(100 * time.Millisecond) {
			synctest.Wait()
			for i, conn := range stay {
				if conn == nil {
					continue
				}
				if code, e := conn.closed(); code != 0 {
					if code != wire.CloseDraining || e == nil {
						t.Errorf("closed with %d, %v", code, e)
					}
					closings[time.Since(began)]++
					stay[i] = nil
					left--
				}
			}
			if time.Since(began) > 2*within {
				t.Fatalf("%d were never closed", left)
			}
		}
		<-returned
		for at, n := range closings {
			if at < within/2 || n > len(stay)/2 { // so many at one of 50 moments: by chance once in 10¹⁰
				t.Errorf("%d were closed after %v", n, at)
			}
		}
		h.replaceInstance()
		h.complete(job, "a")
		_, resumed, err := h.resume(s, token, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantTerminals(t, resumed, "0 a")
	})
}
