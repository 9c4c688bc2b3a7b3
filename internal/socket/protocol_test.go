package socket_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// serveFirst starts a server whose connections read a first message of type "one" or "two", and answer it.
func serveFirst(t *testing.T, timeout time.Duration) *testServer {
	t.Helper()
	return startServerWith(t, socket.Options{}, func(c *socket.Conn) error {
		typ, text, err := socket.ReadFirst(c, timeout, "one", "two")
		if err != nil {
			var e *wire.Error
			if !errors.As(err, &e) {
				return err
			}
			socket.Refuse(c, e)
		} else {
			c.Send(testFrame{N: len(text), Text: string(typ)})
		}
		for {
			m, err := c.Read()
			if err != nil {
				return err
			}
			code := wire.InvalidRequest
			if strings.Contains(string(m.Data), "fatal") {
				code = wire.Unauthorized
			}
			socket.ReplyError(c, m, wire.Errorf(code, "no"))
		}
	})
}

// TestFirstMessage: only a message of the expected types may come first.
func TestFirstMessage(t *testing.T) {
	t.Parallel()
	s := serveFirst(t, time.Hour)
	for first, want := range map[string]string{`{"type":"one"}`: "one", `{"type":"two","x":1}`: "two"} {
		c := dial(t, s.address)
		c.send(frame(fin|text, first))
		if got := c.next().Payload; !strings.Contains(got, `"text":"`+want+`"`) {
			t.Errorf("%s is answered with %s", first, got)
		}
	}
	for name, first := range map[string][]byte{
		"another type": frame(fin|text, `{"type":"three"}`), "no type": frame(fin|text, `{}`), "no JSON": frame(fin|text, `hello`),
		"a binary frame": frame(fin|binaryFrame, `{"type":"one"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, s.address)
			c.send(first)
			c.expectError(wire.InvalidRequest)
			c.expectClose(wire.CloseBadMessage)
		})
	}
}

// TestFirstMessageTimeout: a connection that sends nothing in time is closed.
func TestFirstMessageTimeout(t *testing.T) {
	t.Parallel()
	c := dial(t, serveFirst(t, 10*time.Millisecond).address)
	c.expectError(wire.DeadlineExceeded)
	c.expectClose(wire.CloseIdle)
}

// TestReplyError: an error answers the message, with its type, and closes the connection only if its code is fatal.
func TestReplyError(t *testing.T) {
	t.Parallel()
	c := dial(t, serveFirst(t, time.Hour).address)
	c.send(frame(fin|text, `{"type":"one"}`))
	c.next()
	for message, want := range map[string]string{
		string(frame(fin|text, `{"type":"three"}`)): `"reply_to":"three"`, string(frame(fin|text, `{}`)): `"error":"INVALID_REQUEST"`,
		string(frame(fin|binaryFrame, `{"type":"x"}`)): `"error":"INVALID_REQUEST"`,
	} {
		c.send([]byte(message))
		got := c.next().Payload
		if !strings.Contains(got, want) || strings.Contains(got, `"fatal":true`) || strings.Contains(got, "reply_to") != strings.Contains(want, "reply_to") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c.send(frame(fin|text, `{"type":"fatal"}`))
	c.expectError(wire.Unauthorized)
	c.expectClose(wire.CloseUnauthorized)
}

// TestPanicClosesItsConnectionOnly: the panic is logged, the peer gets an error, and other connections are served.
func TestPanicClosesItsConnectionOnly(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	var mu sync.Mutex
	log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &logged}, nil))
	s := startServerWith(t, socket.Options{}, func(c *socket.Conn) error {
		var failed error
		socket.Protect(c, log, func() {
			for {
				m, err := c.Read()
				if err != nil {
					failed = err
					return
				}
				if string(m.Data) == "panic" {
					panic("a defect")
				}
				c.Send(testFrame{Text: string(m.Data)})
			}
		})
		return failed
	})
	other, c := dial(t, s.address), dial(t, s.address)
	c.send(frame(fin|text, "panic"))
	c.expectError(wire.Internal)
	c.expectClose(wire.CloseInternal)
	other.send(frame(fin|text, "hello"))
	if got := other.next().Payload; !strings.Contains(got, "hello") {
		t.Errorf("another connection got %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if text := logged.String(); !strings.Contains(text, "a defect") || !strings.Contains(text, "protocol_test.go") {
		t.Errorf("logged %q, want the panic and its stack", text)
	}
}

// TestCloseCodes: every error code has a close code of the range for applications.
func TestCloseCodes(t *testing.T) {
	t.Parallel()
	for _, code := range wirespec.Codes() {
		if got := socket.CloseCode(code); got < 4000 || got > 4999 {
			t.Errorf("%s closes with %d", code, got)
		}
	}
	for code, want := range map[wire.Code]wire.CloseCode{
		wire.StaleEpoch: wire.CloseReplaced, wire.SchedulerDependencyDown: wire.CloseDraining, wire.Internal: wire.CloseInternal, wire.InvalidRequest: wire.CloseBadMessage,
	} {
		if got := socket.CloseCode(code); got != want {
			t.Errorf("%s closes with %d, want %d", code, got, want)
		}
	}
}
