package session_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// busyStore has something happen right after it was looked whether there are messages that were not heard.
type busyStore struct {
	store.Store
	then func()
}

func (s *busyStore) Read(ctx context.Context, p store.ReadParams) ([]store.OutboxMessage, error) {
	got, err := s.Store.Read(ctx, p)
	if p.Limit == 1 {
		s.then()
	}
	return got, err
}

// TestAResultThatComesWhileASessionIsResumed is no loss, and is heard.
func TestAResultThatComesWhileASessionIsResumed(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		job := w.utter(s)
		body, err := session.Seal(ended(job, w.jobs.placed[job], core.StateDone, "", `{"text_tgt":"hola"}`))
		if err != nil {
			t.Fatal(err)
		}
		w.over(&busyStore{w.store, sync.OnceFunc(func() {
			if _, err := w.store.Append(t.Context(), store.AppendParams{Session: s.Ref(), Body: body, Keep: time.Minute}); err != nil {
				t.Error(err)
			}
		})}, w.jobs)
		_, next, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := next.last(t, "session_resumed"); m["recovered"] != true {
			t.Errorf("%v", m)
		}
		if diff := cmp.Diff([]string{"0 hola"}, next.ends()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
