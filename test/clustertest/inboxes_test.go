package clustertest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBacklogOfInboxes reads streams of a real Redis in every topology.
func TestBacklogOfInboxes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{Standalone, Sentinel, RedisCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := StartRedis(t, name, 1)
			do := func(key string, args ...string) string {
				t.Helper()
				server, err := r.ServerOf(key)
				if err != nil {
					t.Fatal(err)
				}
				reply, err := server.Do(args...)
				if err != nil {
					t.Fatalf("%v: %v", args, err)
				}
				return fmt.Sprint(reply)
			}
			want := func(pending, undelivered, oldest int64) {
				t.Helper()
				b, err := r.Backlog()
				if err != nil || b.Pending != pending || b.Undelivered != undelivered || b.OldestMS != oldest || b.Empty() != (oldest == 0) {
					t.Errorf("%+v, %v; want %d pending, %d undelivered, the oldest of %d", b, err, pending, undelivered, oldest)
				}
			}
			want(0, 0, 0)
			a, b, bare := InboxKey("i-0-a"), InboxKey("i-1-b"), InboxKey("i-2-c")
			for _, key := range []string{a, b} {
				do(key, "XGROUP", "CREATE", key, InboxGroup, "0", "MKSTREAM")
			}
			do(bare, "XADD", bare, "900-0", "x", "no group")
			want(0, 0, 0) // a stream without a group is not the inbox of an instance
			do(bare, "DEL", bare)
			do(a, "XADD", a, "1000-0", "x", "y")
			do(b, "XADD", b, "2000-0", "x", "y")
			do(b, "XADD", b, "3000-0", "x", "y")
			want(0, 3, 1000)
			do(a, "XREADGROUP", "GROUP", InboxGroup, "me", "STREAMS", a, ">")
			want(1, 2, 1000)
			do(a, "XACK", a, InboxGroup, "1000-0") // it stays in the stream, but is acknowledged
			want(0, 2, 2000)
			do(b, "XREADGROUP", "GROUP", InboxGroup, "me", "COUNT", "1", "STREAMS", b, ">")
			want(1, 1, 2000)
			do(b, "XACK", b, InboxGroup, "2000-0")
			want(0, 1, 3000)

			dlq := strings.TrimSuffix(b, "inbox") + "dlq"
			do(dlq, "XADD", dlq, "*", "body", "malformed")
			deadLetters, err := r.DeadLetters()
			if err != nil || len(deadLetters) != 1 || deadLetters[0].Key != dlq || !strings.Contains(deadLetters[0].Text, "malformed") {
				t.Errorf("dead letters %v, %v; want the one of %s", deadLetters, err, dlq)
			}
			before := time.Now().UnixMilli()
			now, err := r.Clock()
			if after := time.Now().UnixMilli(); err != nil || now < before-1000 || now > after+1000 {
				t.Errorf("the clock of Redis is %d, %v; want about %d to %d", now, err, before, after)
			}
		})
	}
}
