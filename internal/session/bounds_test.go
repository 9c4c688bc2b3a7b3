package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// names makes options that take about so many bytes.
func names(bytes int) core.Options {
	var o core.Options
	for i := range bytes / 100 {
		o.RequiredServices = append(o.RequiredServices, fmt.Sprintf("%096d", i))
	}
	return o
}

func (w *world) stateSize(s *session.Connection) int {
	w.t.Helper()
	st, err := w.store.LoadSession(w.t.Context(), s.Ref().SessionKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(st.Body)
}

func TestSessionOptionsAreBounded(t *testing.T) {
	play(t, func(w *world) {
		p := session.StartParams{Langs: [2]core.Lang{"en", "es"}, Options: names(5000), Request: &wire.SessionStart{}}
		if _, err := w.rooms.Start(t.Context(), p, &ear{}); err == nil || !strings.Contains(err.Error(), "options") {
			t.Errorf("a start: %v", err)
		}
		s, _ := w.start()
		o := names(5000)
		if e := s.Update("", &o, &wire.SessionUpdate{}); e == nil || e.Field != "options" || e.Code != wire.InvalidRequest {
			t.Errorf("an update: %v", e)
		}
	})
}

// The options of a session are stored once, however many utterances wait, and what all of them take is bounded.
func TestSavedStateIsBounded(t *testing.T) {
	play(t, func(w *world) {
		w.cfg.MaxUnanswered = 16
		w.over(w.store, w.jobs)
		s, _ := w.start()
		o := names(4000)
		if e := s.Update("", &o, &wire.SessionUpdate{}); e != nil {
			t.Fatal(e)
		}
		for range 16 {
			w.utter(s)
		}
		synctest.Wait()
		if n := w.stateSize(s); n > 16<<10 {
			t.Errorf("the state of 16 utterances with the same options of 4 KB takes %d bytes", n)
		}
		refused := 0
		for i := range 20 {
			o := names(3900)
			o.Region = fmt.Sprint("r", i)
			if e := s.Update("", &o, &wire.SessionUpdate{}); e != nil {
				if refused++; e.Code != wire.RateLimited {
					t.Fatal(e)
				}
				continue
			}
			w.say(s, tone(100))
			w.hear(s, session.AudioFrame{Final: true})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := w.stateSize(s); refused == 0 || n > 64<<10 {
			t.Errorf("%d updates were refused; the state takes %d bytes", refused, n)
		}
	})
}

func TestUtteranceRateIsBounded(t *testing.T) {
	play(t, func(w *world) {
		w.cfg.MaxUnanswered = 1000
		w.cfg.Ahead = time.Hour
		w.over(w.store, w.jobs)
		s, _ := w.start()
		begun := 0
		var last *wire.Error
		for range 10 * 60 * 100 { // ten minutes, a hundred a second
			if e := s.Audio(session.AudioFrame{Data: tone(1), Final: true}); e == nil {
				begun++
				for _, id := range w.jobs.jobs()[max(0, len(w.jobs.jobs())-1):] {
					w.done(id, "x")
				}
			} else {
				last = e
			}
			time.Sleep(10 * time.Millisecond)
		}
		if begun > 10*60*6+1000 || last == nil || last.Code != wire.RateLimited || last.RetryAfterMS == 0 {
			t.Errorf("%d utterances in ten minutes; refused with %v", begun, last)
		}
	})
}

func TestControlMessagesAreBounded(t *testing.T) {
	play(t, func(w *world) {
		s, _ := w.start()
		var last *wire.Error
		for range 1000 {
			if e := s.Update("en", nil, &wire.SessionUpdate{}); e != nil {
				last = e
			}
		}
		if last == nil || last.Code != wire.RateLimited || last.RetryAfterMS == 0 {
			t.Errorf("a thousand updates at once: %v", last)
		}
	})
}

// messages is how many durable messages the store keeps of a session, and how many bytes they have.
func (w *world) messages(s *session.Connection) (n, bytes int) {
	w.t.Helper()
	list, err := w.store.Read(w.t.Context(), store.ReadParams{Session: s.Ref()})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range list {
		bytes += len(m.Body)
	}
	return len(list), bytes
}

func TestOutboxDropsWhatIsAcknowledged(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		for i := range 5 {
			w.done(w.utter(s), fmt.Sprint("r", i))
		}
		synctest.Wait()
		if e := s.AckResults(6); e == nil || e.Field != "seq" {
			t.Errorf("a message that was not sent: %v", e)
		}
		if e := s.AckResults(3); e != nil {
			t.Fatal(e)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n, _ := w.messages(s); n != 2 {
			t.Errorf("%d messages are kept, want 2", n)
		}
		s.Detach()
		// The last message that a resume names is acknowledged by it.
		_, next, err := w.resume(s, link.token(t), 4)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if m := next.last(t, "session_resumed"); m["recovered"] != true {
			t.Errorf("%v", m)
		}
		wantEnds(t, next, "4 r4")
		if n, _ := w.messages(s); n != 1 {
			t.Errorf("%d messages are kept after the resume, want 1", n)
		}
	})
}

func TestOutboxIsBoundedInBytes(t *testing.T) {
	play(t, func(w *world) {
		w.cfg.OutboxBytes = 100 << 10
		w.over(w.store, w.jobs)
		s, link := w.start()
		large := strings.Repeat("x", 20<<10) // each is in its message twice
		for range 20 {
			w.done(w.utter(s), large)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n, bytes := w.messages(s); n == 0 || bytes > 100<<10 {
			t.Errorf("%d messages of %d bytes are kept", n, bytes)
		}
		s.Detach()
		again, next, err := w.resume(s, link.token(t), 3)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := next.last(t, "session_resumed"); m["recovered"] != false {
			t.Errorf("%v", m)
		}
		w.done(w.utter(again), "after")
		ends := next.ends()
		if diff := cmp.Diff("20 after", ends[len(ends)-1]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Large results that wait for an earlier one count as unanswered: they take the store's memory.
func TestLargeResultsThatWaitCountAsUnanswered(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		w.utter(s) // without a result
		large := strings.Repeat("x", 60<<10)
		for range 12 {
			before := len(w.jobs.jobs())
			w.say(s, tone(300))
			w.hear(s, session.AudioFrame{Final: true})
			synctest.Wait()
			for _, id := range w.jobs.jobs()[before:] {
				w.done(id, large)
			}
		}
		if n := len(w.jobs.jobs()); n > 8 {
			t.Errorf("%d results wait for the first", n)
		}
		w.done(w.jobs.jobs()[0], "first")
		synctest.Wait()
		if n := len(link.ends()); n != 13 {
			t.Errorf("%d terminal messages", n)
		}
	})
}

// Audio that was refused because it came too fast is taken when it comes again after the time that was named.
func TestAudioThatCameTooFastIsTakenLater(t *testing.T) {
	play(t, func(w *world) {
		s, _ := w.start()
		for try := range 100 {
			e := s.Audio(session.AudioFrame{Data: tone(1000)})
			if e == nil {
				continue
			}
			if e.Code != wire.RateLimited || e.RetryAfterMS == 0 {
				t.Fatal(e)
			}
			for range 20 {
				_ = s.Audio(session.AudioFrame{Data: tone(1000)}) // who does not wait makes it no worse
			}
			time.Sleep(time.Duration(e.RetryAfterMS) * time.Millisecond)
			if e := s.Audio(session.AudioFrame{Data: tone(1000)}); e != nil {
				t.Fatalf("after %d: %v", try, e)
			}
			return
		}
		t.Error("a hundred seconds of audio at once are taken")
	})
}
