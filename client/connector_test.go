package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestStartFailsAtOnceIfUnreachable(t *testing.T) {
	t.Parallel()
	tries := 0
	_, err := client.Start(t.Context(), client.Config{
		URL:        "http://127.0.0.1:5010",
		HTTPClient: gatedClient(nil, func() bool { tries++; return false }),
	})
	if !errors.Is(err, errRefused) || tries != 1 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

func TestRefusedStartClosesConnection(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	server.Start()
	defer server.Close()
	if _, err := client.Start(t.Context(), client.Config{URL: server.URL}); err == nil {
		t.Fatal("a session was started")
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is kept open")
	}
}

// Start returns the error with which the scheduler refuses a session.
func TestStartRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script connScript
		code   wire.CloseCode
		status int
		err    wire.Code
	}{
		"by HTTP": {status: http.StatusUnauthorized, err: wire.Unauthorized, script: func(p *schedulerConn) {
			p.response.WriteHeader(http.StatusUnauthorized)
			_, _ = p.response.Write([]byte(`{"error":"UNAUTHORIZED","detail":"no token"}`))
		}},
		"by a close": {code: wire.CloseForbidden, err: wire.Forbidden, script: func(p *schedulerConn) {
			p.expect(&wire.SessionStart{})
			p.closeWith(wire.CloseForbidden, wire.Error{Code: wire.Forbidden})
		}},
		"by an answer": {code: wire.CloseBadMessage, err: wire.InvalidRequest, script: func(p *schedulerConn) {
			p.expect(&wire.SessionStart{})
			p.send(wire.ErrorFrame{Error: wire.Error{Code: wire.InvalidRequest}, ReplyTo: "session_start"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := client.Start(t.Context(), newFakeScheduler(t, c.script).config())
			expectConnectionError(t, err, c.code, c.err)
			var lost *client.ConnectionError
			if errors.As(err, &lost); lost.Status != c.status {
				t.Errorf("the status is %d, want %d", lost.Status, c.status)
			}
		})
	}
}

// The start is retried if the instance is stopping or the connection is lost.
func TestStartIsRetried(t *testing.T) {
	t.Parallel()
	lostStart := make(chan wire.SessionStart, 1) // passed from the connection that is lost to the next one
	f := newFakeScheduler(t,
		func(p *schedulerConn) { p.response.WriteHeader(http.StatusServiceUnavailable) },
		func(p *schedulerConn) {
			p.expect(&wire.SessionStart{})
			p.closeWith(wire.CloseDraining, wire.Error{Code: wire.SchedulerDependencyDown})
		},
		func(p *schedulerConn) {
			var lost wire.SessionStart
			p.expect(&lost)
			lostStart <- lost
			p.drop()
		},
		func(p *schedulerConn) {
			lost := <-lostStart
			if next := p.answerStart(defaultLimits); next.ResumeToken != lost.ResumeToken || len(lost.ResumeToken) < 16 {
				p.fail("the lost start had the secret %q, the next one has %q", lost.ResumeToken, next.ResumeToken)
			}
			p.answerEnd(wire.SessionEnded{SessionID: "s-1"})
		},
	)
	startSession(t, f.config()).endSession()

	never := make([]connScript, 5)
	for i := range never {
		never[i] = func(p *schedulerConn) {
			p.expect(&wire.SessionStart{})
			p.closeWith(wire.CloseDraining, wire.Error{Code: wire.Internal})
		}
	}
	_, err := client.Start(t.Context(), newFakeScheduler(t, never...).config())
	expectConnectionError(t, err, wire.CloseDraining, wire.Internal)
}

// A session outlasts its token. Each reconnect asks for another one, again if there was an error.
func TestTokenSource(t *testing.T) {
	t.Parallel()
	holding := func(token string, then connScript) connScript {
		return func(p *schedulerConn) {
			if got := p.request.Header.Get("Authorization"); got != "Bearer "+token {
				t.Errorf("connection %d has %q, want %s", p.number, got, token)
			}
			then(p)
		}
	}
	for given, renewed := range map[string][]string{"a": {"", "b", "c"}, "": {"a", "", "b", "c"}} {
		f := newFakeScheduler(t,
			holding("a", func(p *schedulerConn) { p.answerStart(defaultLimits); p.drop() }),
			holding("b", func(p *schedulerConn) { p.answerResume(0, 1); p.drop() }),
			holding("c", resumeAndEnd(0, 1)))
		cfg := f.config()
		cfg.Token = given
		cfg.TokenSource = func(context.Context) (token string, err error) {
			if token, renewed = renewed[0], renewed[1:]; token == "" {
				err = errors.New("temporary error")
			}
			return token, err
		}
		s := startSession(t, cfg)
		for range 2 {
			next[client.Reconnecting](s)
			next[client.SessionResumed](s)
		}
		s.endSession()
	}
}

func TestStartFailsWithoutToken(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	_, err := client.Start(t.Context(), client.Config{
		URL: "http://127.0.0.1:1", Start: wire.SessionStart{}, TokenSource: func(context.Context) (string, error) { return "", no },
	})
	if !errors.Is(err, no) {
		t.Errorf("Start: %v", err)
	}
}

// A WebSocket server that does not speak the subprotocol is not a scheduler.
func TestServerWithoutSubprotocol(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		if conn, err := websocket.Accept(p.response, p.request, nil); err == nil {
			p.ws = conn
			_, _, _ = p.read()
		}
	})
	if _, err := client.Start(t.Context(), f.config()); err == nil || !strings.Contains(err.Error(), "Config.URL") {
		t.Errorf("Start: %v", err)
	}
}

// singleWriteConn is a connection on which every write after the first fails.
type singleWriteConn struct {
	net.Conn
	writes atomic.Int64
}

// Write implements net.Conn.
func (m *singleWriteConn) Write(b []byte) (int, error) {
	if m.writes.Add(1) > 1 {
		return 0, errors.New("writes are blocked")
	}
	return m.Conn.Write(b)
}

// The scheduler may close the connection before it reads anything. Its error must still reach the caller.
func TestRefusedBeforeStartIsRead(t *testing.T) {
	t.Parallel()
	f := newFakeScheduler(t, func(p *schedulerConn) {
		p.closeWith(wire.CloseUnauthorized, wire.Error{Code: wire.Unauthorized})
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &singleWriteConn{Conn: conn}, err
	}}
	defer transport.CloseIdleConnections()
	cfg := f.config()
	cfg.HTTPClient = &http.Client{Transport: transport}
	_, err := client.Start(t.Context(), cfg)
	expectConnectionError(t, err, wire.CloseUnauthorized, wire.Unauthorized)
}
