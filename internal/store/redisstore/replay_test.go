package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// TestReplayCutShort: an instance that lost its way between two steps of a replay leaves a letter that nobody else takes for
// a while, and that it can replay itself without a second effect.
func TestReplayCutShort(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr())
	mine := func(o *redisstore.Options) { o.Prefix = "mine" }
	s, lossy := open(t, redis.URL(), mine), open(t, proxy.URL(), mine)
	for _, id := range []core.InstanceID{"i-1", "i-2", "i-3"} {
		if err := s.Announce(t.Context(), store.AnnounceParams{ID: id, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	dead := func() string {
		t.Helper()
		if _, err := s.Post(t.Context(), store.PostParams{To: "i-1", Body: []byte("x"), MaxMessages: 8}); err != nil {
			t.Fatal(err)
		}
		letters, err := s.Fetch(t.Context(), store.FetchParams{Inbox: "i-1", Wait: time.Second, Limit: 1})
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		id, err := s.DeadLetter(t.Context(), store.DeadLetterParams{Inbox: "i-1", Message: letters[0], Reason: "FAILED", Keep: time.Hour})
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
		t.Errorf("what is not there: %d", got)
	}
	for name, cut := range map[string]func(id string){
		"after it was claimed": func(id string) {
			proxy.DropReplies(1)
			if posted, err := lossy.Replay(t.Context(), store.ReplayParams{Inbox: "i-1", ID: id, To: "i-2", MaxMessages: 8}); err == nil {
				t.Fatalf("the reply was lost, and the answer is %d", posted)
			}
		},
		"after it was put into the inbox": func(id string) {
			until := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
			do("HSET", "mine:streams:{instance:i-1}:dlq:claims", id, until+" i-2")
			do("SET", "mine:streams:{instance:i-2}:replayed:i-1/"+id, "1")
			do("XADD", "mine:streams:{instance:i-2}:inbox", "*", "b", "x", "at", "1-0")
		},
	} {
		id := dead()
		cut(id)
		if got := replay(id, "i-3"); got != store.NoDeadLetter {
			t.Errorf("%s: another replays it: %d", name, got)
		}
		if n, err := s.Discard(t.Context(), "i-1"); err != nil || n != 0 {
			t.Errorf("%s: another discards it: %d, %v", name, n, err)
		}
		if got := replay(id, "i-2"); got != store.Accepted {
			t.Errorf("%s: it replays it again: %d", name, got)
		}
		letters, err := s.Fetch(t.Context(), store.FetchParams{Inbox: "i-2", Wait: time.Second, Limit: 8})
		if err != nil || len(letters) != 1 {
			t.Errorf("%s: in the inbox: %+v, %v", name, letters, err)
		}
		if left, err := s.DeadLetters(t.Context(), "i-1", "", 8); err != nil || len(left) != 0 {
			t.Errorf("%s: still dead: %+v, %v", name, left, err)
		}
	}
}
