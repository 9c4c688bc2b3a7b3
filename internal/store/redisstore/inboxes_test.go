package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestMessageWithOtherFields: the body of a message that was not written by this program is its first field, in Go and in scripts.
func TestMessageWithOtherFields(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := open(t, redis.URL(), func(o *redisstore.Options) { o.Prefix = "test" })
	if err := s.Announce(t.Context(), store.AnnounceParams{ID: "i-1", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := redis.Do("XADD", "test:streams:{instance:i-1}:inbox", "*", "z", "first", "a", "second"); err != nil {
		t.Fatal(err)
	}
	fetched, err := s.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: time.Second, Limit: 1})
	if err != nil || len(fetched) != 1 || string(fetched[0].Body) != "first" {
		t.Errorf("fetched: %+v, %v", fetched, err)
	}
	again, err := s.Pending(t.Context(), store.FetchParams{Inbox: "i-1", Limit: 1})
	if err != nil || len(again) != 1 || string(again[0].Body) != "first" {
		t.Errorf("pending: %+v, %v", again, err)
	}
}

// TestFetchFromAnInboxThatWasRemoved: an instance whose inbox was removed, because it was taken for dead, soon reads the one that it creates again.
func TestFetchFromAnInboxThatWasRemoved(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := open(t, redis.URL(), func(o *redisstore.Options) { o.Prefix = "test" })
	fetched, err := s.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: time.Hour, Limit: 1})
	if len(fetched) != 0 || err != nil {
		t.Errorf("without an inbox: %+v, %v", fetched, err)
	}
	if err := s.Announce(t.Context(), store.AnnounceParams{ID: "i-1", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Post(t.Context(), store.PostParams{To: "i-1", Body: []byte("x"), MaxMessages: 8}); err != nil {
		t.Fatal(err)
	}
	fetched, err = s.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: time.Hour, Limit: 1})
	if len(fetched) != 1 || err != nil {
		t.Errorf("with its inbox: %+v, %v", fetched, err)
	}
}

// TestInterruptedReplay: a dead letter whose replay was interrupted between two steps cannot be replayed or discarded by another instance
// for a while, and the same instance can repeat the replay without a second effect.
func TestInterruptedReplay(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr())
	samePrefix := func(o *redisstore.Options) { o.Prefix = "test" }
	s, lossy := open(t, redis.URL(), samePrefix), open(t, proxy.URL(), samePrefix)
	for _, id := range []core.InstanceID{"i-1", "i-2", "i-3"} {
		if err := s.Announce(t.Context(), store.AnnounceParams{ID: id, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	makeDeadLetter := func() string {
		t.Helper()
		if _, err := s.Post(t.Context(), store.PostParams{To: "i-1", Body: []byte("x"), MaxMessages: 8}); err != nil {
			t.Fatal(err)
		}
		messages, err := s.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: time.Second, Limit: 1})
		if err != nil || len(messages) != 1 {
			t.Fatal(messages, err)
		}
		id, err := s.DeadLetter(t.Context(), store.DeadLetterParams{Inbox: "i-1", Message: messages[0], Reason: "FAILED", Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	replay := func(id string, to core.InstanceID) store.PostResult {
		t.Helper()
		posted, err := s.Replay(t.Context(), store.ReplayParams{Inbox: "i-1", ID: id, To: to, MaxMessages: 8})
		if err != nil {
			t.Fatal(err)
		}
		return posted
	}
	do := func(args ...string) {
		t.Helper()
		if _, err := redis.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	if got := replay("1-1", "i-3"); got != store.NoDeadLetter { // the server has the script from now on
		t.Errorf("an unknown dead letter: %d", got)
	}
	for name, interrupt := range map[string]func(id string){
		"after it was claimed": func(id string) {
			proxy.DropReplies(1)
			if posted, err := lossy.Replay(t.Context(), store.ReplayParams{Inbox: "i-1", ID: id, To: "i-2", MaxMessages: 8}); err == nil {
				t.Fatalf("the reply was lost, and the result is %d", posted)
			}
		},
		"after it was appended to the inbox": func(id string) {
			until := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
			do("HSET", "test:streams:{instance:i-1}:dlq:claims", id, until+" i-2")
			do("SET", "test:streams:{instance:i-2}:replayed:i-1/"+id, "1")
			do("XADD", "test:streams:{instance:i-2}:inbox", "*", "b", "x", "at", "1-0")
		},
	} {
		id := makeDeadLetter()
		interrupt(id)
		if got := replay(id, "i-3"); got != store.NoDeadLetter {
			t.Errorf("%s: replay by another instance: %d", name, got)
		}
		if n, err := s.Discard(t.Context(), "i-1"); err != nil || n != 0 {
			t.Errorf("%s: discard by another instance: %d, %v", name, n, err)
		}
		if got := replay(id, "i-2"); got != store.Accepted {
			t.Errorf("%s: repeated replay: %d", name, got)
		}
		messages, err := s.Fetch(t.Context(), store.FetchParams{Inbox: "i-2", Wait: time.Second, Limit: 8})
		if err != nil || len(messages) != 1 {
			t.Errorf("%s: in the inbox: %+v, %v", name, messages, err)
		}
		if left, err := s.DeadLetters(t.Context(), "i-1", "", 8); err != nil || len(left) != 0 {
			t.Errorf("%s: dead letters: %+v, %v", name, left, err)
		}
	}
}
