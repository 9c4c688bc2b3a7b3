package redisstore_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// TestALetterOfAnotherForm is what its first field holds, however it is read: somebody wrote it by hand.
func TestALetterOfAnotherForm(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := open(t, redis.URL(), func(o *redisstore.Options) { o.Prefix = "mine" })
	if err := s.Announce(t.Context(), store.AnnounceParams{ID: "i-1", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := redis.Do("XADD", "mine:streams:{instance:i-1}:inbox", "*", "z", "first", "a", "second"); err != nil {
		t.Fatal(err)
	}
	fetched, err := s.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: time.Second, Limit: 1})
	if err != nil || len(fetched) != 1 || string(fetched[0].Body) != "first" {
		t.Errorf("fetched: %+v, %v", fetched, err)
	}
	again, err := s.Pending(t.Context(), store.FetchParams{Inbox: "i-1", Limit: 1})
	if err != nil || len(again) != 1 || string(again[0].Body) != "first" {
		t.Errorf("fetched again: %+v, %v", again, err)
	}
}
