package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestReadsAreLimited: a key has few reads at a time, they leave slots to other keys, one that does not get its turn is refused, and a slot
// stays taken for a while after a read.
func TestReadsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, running := newReadLimit(), make(chan struct{}, 100)
		release := make(chan struct{})
		handler := l.limit(&route{}, func(w http.ResponseWriter, r *http.Request) {
			if !store.IsForPeople(r.Context()) {
				t.Error("the read uses the connections of dispatch")
			}
			running <- struct{}{}
			<-release
			w.WriteHeader(http.StatusOK)
		})
		statuses := make(chan int, 100)
		var asked sync.WaitGroup
		ask := func(key string) {
			asked.Go(func() {
				w, r := newCall(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/v1/audit", http.NoBody))
				w.caller = &auth.Principal{Key: key}
				handler(w, r)
				statuses <- w.status
			})
		}
		perKey := runtime.GOMAXPROCS(0)
		for range perKey + 1 {
			ask("a")
		}
		ask("b")
		synctest.Wait()
		if got := len(running); got != perKey+1 {
			t.Errorf("%d reads are running, want %d of one key and one of another", got, perKey)
		}
		time.Sleep(readWait + time.Millisecond) // of the bubble: the one that waits gives up
		synctest.Wait()
		if got := <-statuses; got != http.StatusTooManyRequests {
			t.Errorf("a read that did not get its turn was answered with %d", got)
		}
		close(release)
		asked.Wait()
		ask("a")
		synctest.Wait()
		if len(running) != perKey+1 {
			t.Error("a read began right after others of its key that took long")
		}
		asked.Wait()
		if len(running) != perKey+2 {
			t.Error("a read did not get its turn after the others")
		}
		time.Sleep(readWait)
		synctest.Wait()
		if len(l.keys) != 0 || len(l.all) != 0 {
			t.Errorf("after all reads: %d keys, %d slots", len(l.keys), len(l.all))
		}
	})
}
