package redistest

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServerReplies(t *testing.T) {
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
			[]any{int64(1), "a", []any{nil, []any{}}, ReplyError("ERR inner")}},
	} {
		got, err := s.Do("EVAL", c.script, "0")
		if err != nil {
			t.Errorf("%s: %v", c.script, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.script, diff)
		}
	}
	if _, err := s.Do("EVAL", `return redis.error_reply("ERR no")`, "0"); !errors.Is(err, ReplyError("ERR no")) {
		t.Errorf("an error reply was returned as %v", err)
	}
	got, err := s.Do("CONFIG", "GET", "maxmemory")
	if diff := cmp.Diff([]any{"maxmemory", "67108864"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestKilledServerRestartsEmpty(t *testing.T) {
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
	s.Kill() // a repeated call changes nothing

	s.Restart()
	if s.Addr() != addr {
		t.Errorf("the address changed from %s to %s", addr, s.Addr())
	}
	expect(t, s.Do, nil, "GET", "key")
}

func TestStoppedServerAnswersAfterContinue(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := connect(t, s.Addr())
	expect(t, c.do, "PONG", "PING")

	s.Stop()
	if s.running() {
		t.Error("a stopped server counts as running")
	}
	fresh := connect(t, s.Addr())
	for _, c := range []*conn{c, fresh} {
		expectNoAnswer(t, c, "INCR", "key")
	}
	s.Continue()
	expectAnswer(t, c)
	expectAnswer(t, fresh)
	expect(t, s.Do, "2", "GET", "key")

	s.Stop()
	s.Kill()
	s.Restart()
	expect(t, s.Do, "PONG", "PING")
}

// expectNoAnswer sends a command and checks that there is no answer for a while.
func expectNoAnswer(t *testing.T, c *conn, args ...string) {
	t.Helper()
	if err := c.send(args...); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if reply, err := c.receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("an answer while there should be none: %v, %v", reply, err)
	}
}

// expectAnswer reads the answer to the command of expectNoAnswer.
func expectAnswer(t *testing.T, c *conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(answerTimeout))
	if reply, err := c.receive(); err != nil {
		t.Fatalf("no answer afterwards: %v, %v", reply, err)
	}
}

func TestStartOnTakenPort(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Kill()
	other, err := net.Listen("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := s.start(); !errors.Is(err, errPortTaken) {
		t.Errorf("a start on a taken port: %v", err)
	}
}

// The other server would answer.
func TestStartOnPortOfAnotherServer(t *testing.T) {
	t.Parallel()
	there := Start(t)
	s := &Server{tb: t, binary: there.binary, dir: t.TempDir(), port: there.port}
	if err := os.WriteFile(s.file("redis.conf"), s.renderConfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); !errors.Is(err, errPortTaken) {
		t.Errorf("a start on another server's port: %v", err)
	}
}

// fakeTB is a test that is expected to fail.
type fakeTB struct {
	testing.TB
	message string
}

func (f *fakeTB) Fatal(args ...any) {
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			f.message += arg
		case error:
			f.message += arg.Error()
		}
	}
	runtime.Goexit()
}

// startFailure returns the message of a start that fails.
func startFailure(t *testing.T, opts ...Option) string {
	f := &fakeTB{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Start(f, opts...)
	}()
	<-ended
	return f.message
}

func TestStartQuotesWrongConfiguration(t *testing.T) {
	t.Parallel()
	if message := startFailure(t, WithConfig("no-such-directive", "1")); !strings.Contains(message, "no-such-directive") {
		t.Errorf("the message is: %s", message)
	}
}

// TestStartWithoutRedis changes the environment, so it is not parallel.
func TestStartWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if message := startFailure(t); !strings.Contains(message, "`make test` installs it") {
		t.Errorf("the message is: %s", message)
	}
}
