package session_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/wire"
)

// startNamed begins a session with a name of the client's choice.
func (w *world) startNamed(tenant core.TenantID, name core.SessionID) (*session.Connection, *ear) {
	w.t.Helper()
	link := &ear{}
	p := session.StartParams{ID: name, Tenant: tenant, Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}
	s, err := w.rooms.Start(w.t.Context(), p, link)
	if err != nil {
		w.t.Fatal(err)
	}
	link.sits(s)
	return s, link
}

// The result of a conversation that nobody resumed is appended after its state has expired. Another tenant that uses
// the name must not get it.
func TestLateResultIsNotDeliveredToAnotherTenant(t *testing.T) {
	play(t, func(w *world) {
		w.cfg.Idle, w.cfg.Wait = time.Second, time.Second
		w.over(w.store, w.jobs)
		a, _ := w.startNamed("acme", "room-x")
		job := w.utter(a)
		a.Detach()
		time.Sleep(w.cfg.Resume + w.cfg.Job + 10*time.Second) // nobody can resume it any more
		w.done(job, "a secret of acme")
		b, link := w.startNamed("beta", "room-x")
		w.done(w.utter(b), "of beta")
		synctest.Wait()
		wantEnds(t, link, "0 of beta")
	})
}

// A name is used again within its tenant, and what is said has as many frames as before: the default request ids are
// the same, and the jobs are not.
func TestRestartedNameMakesOtherJobs(t *testing.T) {
	play(t, func(w *world) {
		first, link := w.startNamed("acme", "room-x")
		one := w.utter(first)
		w.done(one, "of the first")
		first.End()
		synctest.Wait()
		link.last(t, "session_ended")
		time.Sleep(w.cfg.Resume + 2*time.Second)
		second, next := w.startNamed("acme", "room-x")
		two := w.utter(second)
		if one == two || first.Ref() == second.Ref() {
			t.Fatalf("the second conversation has the job %s of the first", two)
		}
		w.done(two, "of the second")
		wantEnds(t, next, "0 of the second")
	})
}

func TestTenantsUseTheSameNameAtTheSameTime(t *testing.T) {
	play(t, func(w *world) {
		a, hearA := w.startNamed("acme", "room-1")
		b, hearB := w.startNamed("beta", "room-1")
		jobA, jobB := w.utter(a), w.utter(b)
		w.done(jobB, "of beta")
		w.done(jobA, "of acme")
		wantEnds(t, hearA, "0 of acme")
		wantEnds(t, hearB, "0 of beta")
	})
}

// A start that is repeated with the client's own resume token is the same conversation.
func TestRepeatedStartKeepsItsIncarnation(t *testing.T) {
	play(t, func(w *world) {
		own := func(s *wire.SessionStart) { s.SessionID, s.ResumeToken = "room-1", "a token of my own" }
		start := func() *session.Connection {
			wish := &wire.SessionStart{}
			own(wish)
			s, err := w.rooms.Start(t.Context(), session.StartParams{ID: "room-1", Langs: [2]core.Lang{"en", "es"}, Request: wish}, &ear{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		first := start()
		again := start()
		w.move()
		elsewhere := start()
		if first.Ref() != again.Ref() || first.Ref() != elsewhere.Ref() {
			t.Errorf("the starts are %v, %v and %v", first.Ref(), again.Ref(), elsewhere.Ref())
		}
	})
}

// TestNoMessageOfAnotherIncarnation starts, cuts, resumes, ends and restarts conversations of a few names and two tenants
// at random, on two instances, while jobs end at any time and place.
func TestNoMessageOfAnotherIncarnation(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		play(t, func(w *world) {
			rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) { confuse(w, rt, time.Second) })
		})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		address, err := redisstore.ParseAddress(redistest.Start(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		st, err := redisstore.Open(t.Context(), redisstore.Options{
			Address: address, Prefix: "lingua", Timeout: time.Second, Log: slog.New(slog.DiscardHandler), Timing: store.Timing{
				Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		w := newWorld(t, st)
		defer func() { w.rooms.Close() }()
		rounds := 0
		rapid.Check(t, func(rt *rapid.T) {
			if rounds++; rounds <= 10 { // these wait in real time
				confuse(w, rt, 10*time.Millisecond)
			}
		})
	})
}

// confusion is one run of it.
type confusion struct {
	*world
	second time.Duration // how long a second of the sessions' configuration takes
	rooms  [2]*session.Registry
	now    []*chat
	all    []*chat
	open   []core.JobID
}

// chat is one conversation as its client sees it.
type chat struct {
	name  string // of all its utterances
	seat  *session.Connection
	ref   core.SessionRef
	token string
	links []*ear
}

func confuse(w *world, rt *rapid.T, second time.Duration) {
	w.cfg.Resume, w.cfg.Idle, w.cfg.Wait, w.cfg.Job, w.cfg.Pause = 4*second, 4*second, second, 2*second, 100*second
	c := &confusion{world: w, second: second}
	for i := range c.rooms {
		c.rooms[i] = w.another(w.store, w.jobs)
		defer c.rooms[i].Close()
	}
	for range rapid.IntRange(10, 40).Draw(rt, "steps") {
		c.step(rt)
	}
	for _, chat := range c.all {
		c.check(rt, chat)
	}
}

func (c *confusion) step(rt *rapid.T) {
	rooms := c.rooms[rapid.IntRange(0, len(c.rooms)-1).Draw(rt, "instance")]
	switch rapid.SampledFrom([]string{"start", "start", "speak", "speak", "finish", "finish", "cut", "resume", "end", "wait", "lapse"}).Draw(rt, "step") {
	case "start":
		tenant := rapid.SampledFrom([]core.TenantID{"acme", "beta"}).Draw(rt, "tenant")
		name := rapid.SampledFrom([]core.SessionID{"room-1", "room-2"}).Draw(rt, "name")
		link := &ear{}
		p := session.StartParams{ID: name, Tenant: tenant, Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}
		if seat, err := rooms.Start(c.t.Context(), p, link); err == nil {
			chat := &chat{name: fmt.Sprintf("c%d", len(c.all)), seat: seat, ref: seat.Ref(), token: link.token(c.t), links: []*ear{link}}
			c.now, c.all = append(c.now, chat), append(c.all, chat)
		}
	case "speak":
		if chat := c.some(rt); chat != nil {
			_ = chat.seat.Begin(chat.name, "", "")
			_ = chat.seat.Audio(session.AudioFrame{Data: tone(100)})
			_ = chat.seat.Audio(session.AudioFrame{Final: true})
			c.settle()
			c.open = c.jobs.jobs()
		}
	case "finish":
		if len(c.open) > 0 {
			id := rapid.SampledFrom(c.open).Draw(rt, "job")
			c.jobs.mu.Lock()
			spec := c.jobs.placed[id]
			c.jobs.mu.Unlock()
			job := ended(id, spec, core.StateDone, "", fmt.Sprintf(`{"text_tgt":%q}`, spec.Utterance.ID))
			if err := rooms.JobEnded(c.t.Context(), job); err != nil {
				rt.Fatal(err)
			}
		}
	case "cut":
		if chat := c.some(rt); chat != nil {
			chat.seat.Detach()
		}
	case "resume":
		if chat := c.some(rt); chat != nil {
			link := &ear{}
			p := session.ResumeParams{Session: chat.ref.Name, Tenant: chat.ref.Tenant, Token: chat.token}
			seat, err := rooms.Resume(c.t.Context(), p, link)
			if chat.links = append(chat.links, link); err == nil {
				chat.seat = seat
				if seat.Ref() != chat.ref {
					rt.Fatalf("%v was resumed as %v", chat.ref, seat.Ref())
				}
			}
		}
	case "end":
		if chat := c.some(rt); chat != nil {
			chat.seat.End()
		}
	case "wait":
		time.Sleep(c.second / 2)
	case "lapse":
		time.Sleep(12 * c.second)
	}
	c.settle()
}

// settle waits until what was begun is done, as far as that is possible on a real clock.
func (c *confusion) settle() {
	if c.second == time.Second {
		synctest.Wait()
		return
	}
	time.Sleep(c.second)
}

func (c *confusion) some(rt *rapid.T) *chat {
	if len(c.now) == 0 {
		return nil
	}
	return rapid.SampledFrom(c.now).Draw(rt, "conversation")
}

// check holds every message that a client got against the conversation it is in.
func (c *confusion) check(rt *rapid.T, chat *chat) {
	for _, link := range chat.links {
		for _, m := range link.heard("utterance_committed", "result", "error", "partial") {
			for _, field := range []string{"utterance_id", "text_tgt"} {
				if of, ok := m[field]; ok && of != chat.name {
					rt.Fatalf("conversation %s was sent a %v of %v", chat.name, m["type"], of)
				}
			}
		}
	}
}
