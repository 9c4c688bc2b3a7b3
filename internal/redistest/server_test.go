package redistest

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServerAnswers(t *testing.T) {
	t.Parallel()
	s := Start(t, WithConfig("maxmemory", "64mb"))
	if want := "redis://" + s.Addr() + "/0"; s.URL() != want {
		t.Errorf("URL %s, want %s", s.URL(), want)
	}
	for _, c := range []struct {
		script string
		want   any
	}{
		{`return redis.status_reply("fine")`, "fine"},
		{`return "two\r\nlines"`, "two\r\nlines"},
		{`return ""`, ""},
		{`return -7`, int64(-7)},
		{`return false`, nil},
		{`return {1, "a", {false, {}}, redis.error_reply("ERR inner")}`,
			[]any{int64(1), "a", []any{nil, []any{}}, ErrorReply("ERR inner")}},
	} {
		got, err := s.Do("EVAL", c.script, "0")
		if err != nil {
			t.Errorf("%s: %v", c.script, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.script, diff)
		}
	}
	if _, err := s.Do("EVAL", `return redis.error_reply("ERR no")`, "0"); !errors.Is(err, ErrorReply("ERR no")) {
		t.Errorf("an error reply came back as %v", err)
	}
	got, err := s.Do("CONFIG", "GET", "maxmemory")
	if diff := cmp.Diff([]any{"maxmemory", "67108864"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAKilledServerComesBackEmpty(t *testing.T) {
	t.Parallel()
	s := Start(t)
	expect(t, s.Do, "OK", "SET", "key", "value")
	c := connect(t, s.Addr())
	expect(t, c.do, "value", "GET", "key")
	addr := s.Addr()

	s.Kill()
	if _, err := c.do("PING"); err == nil {
		t.Error("a killed server answered")
	}
	if _, err := s.Do("PING"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a killed server: %v, want a refused connection", err)
	}
	s.Kill() // twice is no mistake

	s.Restart()
	if s.Addr() != addr {
		t.Errorf("it moved from %s to %s", addr, s.Addr())
	}
	expect(t, s.Do, nil, "GET", "key")
}

func TestAStoppedServerAnswersLater(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := connect(t, s.Addr())
	expect(t, c.do, "PONG", "PING")

	s.Stop()
	if s.running() {
		t.Error("it counts as running")
	}
	fresh := connect(t, s.Addr())
	for _, c := range []*conn{c, fresh} {
		silent(t, c, "INCR", "key")
	}
	s.Continue()
	answersLater(t, c)
	answersLater(t, fresh)
	expect(t, s.Do, "2", "GET", "key")

	s.Stop()
	s.Kill()
	s.Restart()
	expect(t, s.Do, "PONG", "PING")
}

// silent sends a command and sees that for a while there is no answer.
func silent(t *testing.T, c *conn, args ...string) {
	t.Helper()
	if err := c.send(args...); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if reply, err := c.receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("an answer of what should be silent: %v, %v", reply, err)
	}
}

// answersLater reads the answer that silent did not get.
func answersLater(t *testing.T, c *conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	if reply, err := c.receive(); err != nil {
		t.Fatalf("no answer afterwards: %v, %v", reply, err)
	}
}

func TestCommandStats(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.ResetStats()
	for range 3 {
		expect(t, s.Do, "OK", "SET", "key", "value")
	}
	expect(t, s.Do, "value", "EVAL", `return redis.call("GET", KEYS[1])`, "1", "key")
	want := map[string]int64{"set": 3, "eval": 1, "get": 1, "config|resetstat": 1}
	if diff := cmp.Diff(want, s.CommandStats()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.ResetStats()
	if n := s.CommandStats()["set"]; n != 0 {
		t.Errorf("%d SETs after a reset", n)
	}
}
