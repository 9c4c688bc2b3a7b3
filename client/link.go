package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// answerWithin is how long a scheduler may take to accept a connection and answer the first message.
	answerWithin = 10 * time.Second
	// knockWithin is how long it may take to accept one, when there are other addresses.
	knockWithin = 3 * time.Second
	// partWithin is how long to wait for the other side's last words.
	partWithin = time.Second
)

var (
	errSilent = errors.New("nothing was heard for too long, not even a ping")
	errGoAway = errors.New("the scheduler asked to connect anew")
)

// link is one connection to the scheduler.
type link struct {
	conn  *websocket.Conn
	ctx   context.Context // ends when the link is dropped; its cause says why
	drop  context.CancelCauseFunc
	watch *time.Timer      // drops the link when nothing is heard
	quiet time.Duration    // after so long; 0: never
	leave *time.Timer      // drops the link when it was asked to go; nil: it was not
	last  *wire.ErrorFrame // the fatal error that came, if one did
	ours  bool             // if it is replaced, that may be by a try of our own which was given up
}

// connect makes a connection, says the first message and waits for the answer to it.
func (s *Session) connect(first, answer wire.Frame) (*link, error) {
	ctx, cancel := context.WithTimeout(s.ctx, answerWithin)
	defer cancel()
	l, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	l.ours = s.haunted
	if err = l.greet(ctx, first, answer); err != nil {
		l.close()
	}
	// Without an answer, and without a close, the scheduler may come to it later: then this try replaces the next.
	var lost *ConnectionError
	s.haunted = errors.As(err, &lost) && lost.Code == 0
	if err != nil {
		return nil, err
	}
	return l, nil
}

// greet says the first message and waits for the answer.
func (l *link) greet(ctx context.Context, first, answer wire.Frame) error {
	err := l.send(ctx, first)
	if err == nil {
		return l.await(ctx, answer)
	}
	var lost *ConnectionError
	if !errors.As(err, &lost) {
		return err
	}
	// The scheduler may have closed before it read anything; then it has said why.
	ctx, cancel := context.WithTimeout(ctx, partWithin)
	defer cancel()
	var said *ConnectionError
	if errors.As(l.await(ctx, answer), &said) && (said.Code != 0 || said.Frame != nil) {
		return said
	}
	return err
}

func (s *Session) dial(ctx context.Context) (*link, error) {
	l := new(link)
	l.ctx, l.drop = context.WithCancelCause(s.ctx)
	l.watch = time.AfterFunc(answerWithin, func() { l.drop(errSilent) })
	l.watch.Stop()
	token, err := s.token(ctx)
	if err != nil {
		l.drop(nil)
		return nil, &ConnectionError{Err: fmt.Errorf("there is no token: %w", err), unreached: true}
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if s.where.others() { // one that vanished must not keep the session from those that live
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, knockWithin)
		defer cancel()
	}
	conn, resp, err := websocket.Dial(ctx, s.where.here(), &websocket.DialOptions{ //nolint:bodyclose // the library reads and closes it
		HTTPClient:     s.http,
		HTTPHeader:     header,
		Subprotocols:   []string{wire.Subprotocol},
		OnPingReceived: func(context.Context, []byte) bool { l.listen(); return true },
	})
	if err != nil {
		l.drop(nil)
		return nil, refused(resp, err)
	}
	l.conn = conn
	if conn.Subprotocol() != wire.Subprotocol {
		l.close()
		return nil, &ConnectionError{Err: fmt.Errorf("what answers does not speak %s: check that Config.URL leads to a scheduler", wire.Subprotocol), stray: true}
	}
	conn.SetReadLimit(2 * wire.MaxFrame)
	return l, nil
}

// token is what the next connection is made with.
func (s *Session) token(ctx context.Context) (string, error) {
	if s.cfg.TokenSource == nil || s.started.SessionID == "" && s.cfg.Token != "" {
		return s.cfg.Token, nil
	}
	return s.cfg.TokenSource(ctx)
}

// refused reads why there is no connection. The client's own error would quote the address, with what is in its query.
func refused(resp *http.Response, err error) error {
	lost := &ConnectionError{Err: err}
	var at *url.Error
	if errors.As(err, &at) {
		lost.Err = at.Err
	}
	if resp == nil {
		lost.unreached = true
		return lost
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return lost
	}
	lost.Status, lost.stray = resp.StatusCode, stray(resp.StatusCode)
	var said wire.Error
	if body, err := io.ReadAll(resp.Body); err == nil && json.Unmarshal(body, &said) == nil && said.Code != "" {
		lost.Frame = &wire.ErrorFrame{Error: said, Fatal: true}
	}
	return lost
}

// stray reports whether a status is hardly a scheduler's.
func stray(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

func (l *link) send(ctx context.Context, f wire.Frame) error {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		return err
	}
	if err := l.conn.Write(ctx, websocket.MessageText, text); err != nil {
		return l.lost(err)
	}
	return nil
}

// read waits for the next message. A text message comes with its type.
func (l *link) read(ctx context.Context) (wire.FrameType, []byte, error) {
	l.listen()
	typ, body, err := l.conn.Read(ctx)
	l.watch.Stop()
	switch {
	case err != nil:
		return "", nil, l.lost(err)
	case typ == websocket.MessageBinary:
		return "", body, nil
	}
	kind, err := wire.TypeOf(body)
	if err != nil {
		return "", nil, unreadable(err)
	}
	return kind, body, nil
}

// listen begins to wait for a sign of life.
func (l *link) listen() {
	if l.quiet > 0 {
		l.watch.Reset(l.quiet)
	}
}

// await reads until the answer comes. What else comes before it, is about nothing that was said yet.
func (l *link) await(ctx context.Context, answer wire.Frame) error {
	for {
		kind, body, err := l.read(ctx)
		if err != nil {
			return err
		}
		switch kind {
		case answer.Type():
			if err := wire.Decode(body, answer); err != nil {
				return unreadable(err)
			}
			return nil
		case wire.ErrorFrame{}.Type():
			var said wire.ErrorFrame
			if err := wire.Decode(body, &said); err != nil {
				return unreadable(err)
			}
			if !said.Fatal {
				return &ConnectionError{Code: wire.CloseBadMessage, Frame: &said}
			}
			l.last = &said
		case wire.GoAway{}.Type():
			var g wire.GoAway
			if err := wire.Decode(body, &g); err != nil {
				return unreadable(err)
			}
			l.goAway(&g)
		}
	}
}

// lost says how the link ended.
func (l *link) lost(err error) error {
	lost := &ConnectionError{Frame: l.last, Err: err, ours: l.ours}
	if code := websocket.CloseStatus(err); code > 0 {
		lost.Code = wire.CloseCode(code)
	}
	if cause := context.Cause(l.ctx); errors.Is(cause, errSilent) || errors.Is(cause, errGoAway) {
		lost.Err = cause
	}
	return lost
}

// goAway drops the link at a random moment of the first half of the time the scheduler gives: in the second half it begins
// to close those who stay.
func (l *link) goAway(g *wire.GoAway) {
	if l.leave == nil {
		l.leave = time.AfterFunc(rand.N(max(milliseconds(g.ReconnectMS)/2, 1)), func() { l.drop(errGoAway) })
	}
}

// close drops the link, if it is there yet.
func (l *link) close() {
	l.watch.Stop()
	if l.leave != nil {
		l.leave.Stop()
	}
	l.drop(nil)
	_ = l.conn.CloseNow() // it may be closed already
}

// unreadable is the end of a session: the same message would come again.
func unreadable(err error) error {
	return fmt.Errorf("client: the scheduler sent what cannot be read; is this package as new as the scheduler? %w", err)
}
