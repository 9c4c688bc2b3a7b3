package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/endpoints"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// firstBackoff and maxBackoff bound the random wait before a further connection.
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
	// maxStartTries is how often the start is tried at instances that answer.
	maxStartTries = 5
	// answerTimeout is how long the scheduler may take to accept a connection and to answer the first message.
	answerTimeout = 10 * time.Second
	// keepaliveMS is how often at least a connection brings a message, in milliseconds. An instance that hangs is noticed after two and a
	// half times as long, when its presence is about to end and others can take over.
	keepaliveMS = 1500
	// dialTimeout is how long it may take to accept a connection, if there are other endpoints.
	dialTimeout = 3 * time.Second
)

// connector opens the connections of a session. The session's goroutine uses it.
type connector struct {
	cfg       Config
	ctx       context.Context // of the session
	http      *http.Client
	endpoints *endpoints.Rotation
	started   wire.SessionStarted // the answer to the start

	// unansweredFirst is set when a first message was sent and neither answered nor refused. The scheduler may handle it
	// late, and then it replaces the next connection.
	unansweredFirst bool
}

// start connects and starts the session.
func (c *connector) start() (*connection, error) {
	for answered, absent := 0, 0; ; {
		conn, err := c.connect(c.cfg.Start, &c.started)
		if err == nil {
			conn.idleTimeout = c.idleTimeout(c.started.KeepaliveMS)
			return conn, nil
		}
		if c.ctx.Err() != nil {
			return nil, context.Cause(c.ctx)
		}
		c.endpoints.Next()
		if isAbsent(err) {
			absent++
		} else {
			absent = 0
			answered++
		}
		if answered == maxStartTries || absent == c.endpoints.Len() || !isRetryable(err) && !isAbsent(err) {
			return nil, err
		}
		if absent == 0 && !c.wait(answered-1) {
			return nil, context.Cause(c.ctx)
		}
	}
}

// resume connects again and resumes the session after cause, within the time that the scheduler allows. It calls accept with
// the answer, and returns the number of tries so far.
func (c *connector) resume(cause error, tries int, lastSeq int64, accept func(*wire.SessionResumed) error) (*connection, int, error) {
	window := milliseconds(c.started.Limits.ResumeMS)
	until := time.Now().Add(window)
	immediately := errors.Is(cause, errGoAway) // the time of the move was random already
	c.endpoints.Avoid(retryAfter(cause))
	if shouldMove(cause) {
		c.endpoints.Next()
	}
	for ; ; tries++ {
		if d := min(c.endpoints.AvoidFor(), time.Until(until)); d > 0 && !run.Sleep(c.ctx, d) {
			return nil, tries, cause
		}
		if !immediately && !c.wait(c.endpoints.Round(tries)) {
			return nil, tries, cause
		}
		immediately = false
		if !time.Now().Before(until) {
			return nil, tries, fmt.Errorf("client: the session could not be resumed within %v; start another one: %w", window, cause)
		}
		var answer wire.SessionResumed
		conn, err := c.connect(wire.SessionResume{
			SessionID: c.started.SessionID, ResumeToken: c.started.ResumeToken, LastSeq: lastSeq, KeepaliveMS: c.cfg.Start.KeepaliveMS,
		}, &answer)
		if err == nil {
			conn.idleTimeout = c.idleTimeout(answer.KeepaliveMS)
			if err = accept(&answer); err == nil {
				return conn, tries + 1, nil
			}
			conn.close()
		}
		if c.ctx.Err() != nil || !isRetryable(err) && (!isAbsent(err) || c.endpoints.Len() == 1) {
			return nil, tries, err
		}
		c.endpoints.Avoid(retryAfter(err))
		c.endpoints.Next()
		cause = err
	}
}

// idleTimeout returns after what time without a message or a ping a connection is dead, given what the scheduler said of keepalives. A
// scheduler that does not know them pings. Two may be missing.
func (c *connector) idleTimeout(keepaliveMS int64) time.Duration {
	return milliseconds(cmp.Or(keepaliveMS, c.started.Limits.PingIntervalMS)) * 5 / 2
}

// wait waits before retry number n, from 0. It returns false if the session ended first.
func (c *connector) wait(n int) bool {
	return run.Sleep(c.ctx, run.FullJitter(n, firstBackoff, maxBackoff))
}

// connect opens a connection, sends the first message and waits for the answer.
func (c *connector) connect(first, answer wire.Frame) (*connection, error) {
	ctx, cancel := context.WithTimeout(c.ctx, answerTimeout)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	conn.replacedByOwnConn = c.unansweredFirst
	if err = conn.open(ctx, first, answer); err != nil {
		conn.close()
	}
	var lost *ConnectionError
	c.unansweredFirst = errors.As(err, &lost) && lost.Code == 0
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// dial opens a WebSocket to the current endpoint.
func (c *connector) dial(ctx context.Context) (*connection, error) {
	conn := newConnection(c.ctx)
	token, err := c.token(ctx)
	if err != nil {
		conn.drop(nil)
		return nil, &ConnectionError{Err: fmt.Errorf("there is no token: %w", err), unreachable: true}
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if c.endpoints.Len() > 1 { // an endpoint that does not answer must not keep the session from the others
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialTimeout)
		defer cancel()
	}
	//nolint:bodyclose // the library reads and closes it
	ws, resp, err := websocket.Dial(ctx, c.endpoints.Current().String(),
		&websocket.DialOptions{
			HTTPClient:     c.http,
			HTTPHeader:     header,
			Subprotocols:   []string{wire.Subprotocol},
			OnPingReceived: func(context.Context, []byte) bool { conn.resetIdleTimer(); return true },
		})
	if err != nil {
		conn.drop(nil)
		return nil, handshakeError(resp, err)
	}
	conn.ws = ws
	if ws.Subprotocol() != wire.Subprotocol {
		conn.close()
		return nil, &ConnectionError{
			Err:          fmt.Errorf("the server does not speak %s: check that Config.URL leads to a scheduler", wire.Subprotocol),
			notScheduler: true,
		}
	}
	ws.SetReadLimit(2 * wire.MaxFrame)
	return conn, nil
}

// token returns the token for the next connection.
func (c *connector) token(ctx context.Context) (string, error) {
	if c.cfg.TokenSource == nil || c.started.SessionID == "" && c.cfg.Token != "" {
		return c.cfg.Token, nil
	}
	return c.cfg.TokenSource(ctx)
}

// closeIdleConnections closes idle connections of the session's own HTTP client.
func (c *connector) closeIdleConnections() {
	if c.cfg.HTTPClient == nil {
		c.http.CloseIdleConnections()
	}
}

// handshakeError returns the error of a WebSocket handshake that failed. It does not contain the URL, whose query may hold
// a secret.
func handshakeError(resp *http.Response, err error) error {
	lost := &ConnectionError{Err: err}
	var withURL *url.Error
	if errors.As(err, &withURL) {
		lost.Err = withURL.Err
	}
	if resp == nil {
		lost.unreachable = true
		return lost
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return lost
	}
	lost.Status, lost.notScheduler = resp.StatusCode, !isSchedulerStatus(resp.StatusCode)
	var sent wire.Error
	if body, err := io.ReadAll(resp.Body); err == nil && json.Unmarshal(body, &sent) == nil && sent.Code != "" {
		lost.Frame = &wire.ErrorFrame{Error: sent, Fatal: true}
	}
	return lost
}

// isSchedulerStatus reports whether a scheduler may answer a handshake with a status.
func isSchedulerStatus(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status/100 != 4
}
