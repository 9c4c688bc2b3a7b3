package drill

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestInboxesAreSeen looks at streams of a real Redis, of every topology: what is pending, what waits, and how old it is.
func TestInboxesAreSeen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"standalone", "sentinel", "cluster"} {
		t.Run(name, func(t *testing.T) {
			r := startTopology(t, name, 1)
			do := func(key string, args ...string) string {
				t.Helper()
				server, err := r.at(key)
				if err != nil {
					t.Fatal(err)
				}
				reply, err := server.Do(args...)
				if err != nil {
					t.Fatalf("%v: %v", args, err)
				}
				return fmt.Sprint(reply)
			}
			want := func(pending, waiting, oldest int64) {
				t.Helper()
				b, err := r.backlog()
				if err != nil || b.pending != pending || b.waiting != waiting || b.oldest != oldest || b.empty() != (oldest == 0) {
					t.Errorf("%+v, %v; want %d pending, %d waiting, the oldest of %d", b, err, pending, waiting, oldest)
				}
			}
			want(0, 0, 0)
			a, b, bare := inboxKey("i-0-a"), inboxKey("i-1-b"), inboxKey("i-2-c")
			for _, key := range []string{a, b} {
				do(key, "XGROUP", "CREATE", key, group, "0", "MKSTREAM")
			}
			do(bare, "XADD", bare, "900-0", "x", "nobody has a group here")
			want(0, 0, 0) // it is no inbox of anybody's until somebody reads it
			do(bare, "DEL", bare)
			do(a, "XADD", a, "1000-0", "x", "y")
			do(b, "XADD", b, "2000-0", "x", "y")
			do(b, "XADD", b, "3000-0", "x", "y")
			want(0, 3, 1000)
			do(a, "XREADGROUP", "GROUP", group, "me", "STREAMS", a, ">")
			want(1, 2, 1000)
			do(a, "XACK", a, group, "1000-0") // it stays in the stream, and is done with
			want(0, 2, 2000)
			do(b, "XREADGROUP", "GROUP", group, "me", "COUNT", "1", "STREAMS", b, ">")
			want(1, 1, 2000)
			do(b, "XACK", b, group, "2000-0")
			want(0, 1, 3000)

			dlq := strings.TrimSuffix(b, "inbox") + "dlq"
			do(dlq, "XADD", dlq, "*", "body", poison+"7")
			letters, err := r.letters()
			if err != nil || len(letters) != 1 || len(wrongLetters(letters, []string{poison + "7"})) > 0 {
				t.Errorf("%v, %v", letters, err)
			}
			remains(t, r)
			now, err := r.clock()
			if at := time.Now().UnixMilli(); err != nil || now < at-1000 || now > at+1000 {
				t.Errorf("the clock of Redis is %d, %v; it is %d", now, err, at)
			}
		})
	}
}

// remains looks for what is left of the streams that TestInboxesAreSeen made, and of an instance that is gone.
func remains(t *testing.T, r *topology) {
	t.Helper()
	c := &cluster{tb: t, redis: r, instances: []*instance{{name: "i-0"}}}
	all, present := prefix+":schedulers:all", prefix+":schedulers:presence:{instance:i-0-a}"
	for key, args := range map[string][]string{all: {"ZADD", all, "1", "i-0-a", "2", "i-1-b", "3", "i-2-c"}, present: {"SET", present, "{}"}} {
		server, err := r.at(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	size, err := r.size()
	if err != nil || size != 5 {
		t.Errorf("%d keys, %v; want two inboxes, dead letters, a presence and a list of instances", size, err)
	}
	keys, err := c.wrongKeys(t.Context(), 0, true)
	slices.Sort(keys)
	if err != nil || len(keys) != 2 || !strings.HasPrefix(keys[0], all+" lists i-2-c") || !strings.HasPrefix(keys[1], inboxKey("i-1-b")+" ") {
		t.Errorf("%q, %v; want the inbox of i-1, which has dead letters, and that i-2 is listed", keys, err)
	}
}
