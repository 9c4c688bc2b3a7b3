package server

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// sessionServer serves the protocol of the session WebSocket: it decodes messages, checks their form and calls the session.
type sessionServer struct {
	sessions     *session.Registry
	read         *convert.Reader
	auth         *auth.Authenticator
	enforcer     *enforcer
	firstMessage time.Duration
	tokenGrace   time.Duration // how long a session may stay connected after its token has expired
	log          *slog.Logger
	work         *run.Group // the goroutines of connections
}

func newSessionServer(o *Options, e *enforcer) *sessionServer {
	return &sessionServer{
		sessions: o.Sessions, read: o.Read, auth: o.Auth, enforcer: e, firstMessage: o.FirstMessage, tokenGrace: o.TokenGrace,
		log: o.Log, work: run.NewGroup(),
	}
}

// close waits for everything that runs for connections. The connections must be closed before.
func (s *sessionServer) close() { s.work.Close() }

// sessionConn is the WebSocket of a session. The goroutine that reads it sets session when the session has started or resumed.
type sessionConn struct {
	ws      *socket.Conn
	caller  *auth.Principal
	audit   *socketAudit
	session *session.Connection
	expiry  *tokenExpiry // nil: the credential does not expire
}

// handlePong passes a pong to the session. It is called by the goroutine that reads the connection.
func (c *sessionConn) handlePong(payload []byte) {
	if c.session != nil {
		c.session.Pong(payload)
	}
}

// serveInBackground serves a connection in the background, until it ends.
func (s *sessionServer) serveInBackground(c *sessionConn) {
	s.work.Go(func(ctx context.Context) { socket.Protect(c.ws, s.log, func() { s.serve(ctx, c) }) })
}

// serve serves a connection until it ends.
func (s *sessionServer) serve(ctx context.Context, c *sessionConn) {
	if e := s.open(ctx, c); e != nil {
		socket.Refuse(c.ws, e)
		return
	}
	defer c.session.Detach()
	c.session.TerminateIf(s.enforcer.judge) // it may have been revoked before it could be found
	c.expiry = watchExpiry(c.ws, c.caller, s.tokenGrace)
	defer c.expiry.stop()
	for {
		m, err := c.ws.Read()
		if err != nil {
			return
		}
		if e := s.handleMessage(c, m); e != nil {
			if e.Code == wire.Unauthorized || e.Code == wire.Forbidden {
				c.audit.record("session.message", string(c.session.ID()), "", e)
			}
			if e.Code == wire.RateLimited && isAudio(m) {
				c.ws.Close(wire.CloseOverloaded, e) // the client sends the refused audio again after a resume
				continue
			}
			socket.ReplyError(c.ws, m, e)
		}
	}
}

// isAudio reports whether a message is audio of a session.
func isAudio(m socket.Message) bool {
	if m.Binary {
		return true
	}
	typ, err := wire.TypeOf(m.Data)
	return err == nil && typ == wire.AudioChunk{}.Type()
}

// open reads the first message, and starts or resumes the session.
func (s *sessionServer) open(ctx context.Context, c *sessionConn) *wire.Error {
	typ, text, err := socket.ReadFirst(c.ws, s.firstMessage, wire.SessionStart{}.Type(), wire.SessionResume{}.Type())
	var keepalive int64
	switch {
	case err != nil:
	case typ == wire.SessionStart{}.Type():
		var given compat.SessionStart
		if err = wire.Decode(text, &given); err == nil {
			in := given.Translate()
			c.session, err = s.start(ctx, c, in)
			c.recordOpened("session.start", in.SessionID, err)
			keepalive = in.KeepaliveMS
		}
	default:
		var in wire.SessionResume
		if err = wire.Decode(text, &in); err == nil {
			c.session, err = s.resume(ctx, c, &in)
			c.recordOpened("session.resume", in.SessionID, err)
			keepalive = in.KeepaliveMS
		}
	}
	if err != nil {
		return convert.Error(err)
	}
	c.ws.SetKeepalive(keepalive)
	return nil
}

// recordOpened records that the connection has started or resumed a session, or why it has not.
func (c *sessionConn) recordOpened(action, id string, err error) {
	if err == nil {
		c.audit.record(action, string(c.session.ID()), "", nil)
		return
	}
	e, reason := convert.Error(err), ""
	if e.Code == wire.RateLimited {
		reason = limitTenant
	}
	c.audit.auditor.record(socketEntry(action, id, ""), c.audit.by, e, reason)
}

func (s *sessionServer) start(ctx context.Context, c *sessionConn, in *wire.SessionStart) (*session.Connection, error) {
	if e := convert.CheckOptionalID("session_id", in.SessionID); e != nil {
		return nil, e
	}
	if c.caller.Role == auth.Session && in.SessionID == "" {
		in.SessionID = string(c.caller.Session)
	}
	if e := checkSession(c.caller, in.SessionID); e != nil {
		return nil, e
	}
	if n := len(in.ResumeToken); n != 0 && (n < 16 || n > 128) {
		return nil, wire.Invalid("resume_token", "must be 16 to 128 random characters, not %d; or leave it out", n)
	}
	if e := socket.CheckKeepalive(in.KeepaliveMS); e != nil {
		return nil, e
	}
	if len(in.Langs) != 2 {
		return nil, wire.Invalid("langs", "must be two languages, not %d", len(in.Langs))
	}
	p := session.StartParams{ID: core.SessionID(in.SessionID), Tenant: c.caller.Tenant, Caller: c.caller, Remote: c.audit.by.address,
		Request: in}
	var e *wire.Error
	for i, tag := range in.Langs {
		if p.Langs[i], e = s.read.Lang("langs", tag); e != nil {
			return nil, e
		}
	}
	if p.Langs[0] == p.Langs[1] {
		return nil, wire.Invalid("langs", "must be two different languages")
	}
	if in.SrcLang != "" {
		if p.Src, e = s.read.Lang("src_lang", in.SrcLang); e != nil {
			return nil, e
		}
	}
	if in.TgtLang != "" {
		if p.Tgt, e = s.read.Lang("tgt_lang", in.TgtLang); e != nil {
			return nil, e
		}
	}
	if p.Options, e = s.read.Options(&in.Options); e != nil {
		return nil, e
	}
	return s.sessions.Start(ctx, p, c.ws)
}

// checkSession checks that a caller may use a session. An operator may use any.
func checkSession(p *auth.Principal, id string) *wire.Error {
	if p.Role == auth.Session && string(p.Session) != id {
		return wire.FieldErrorf(wire.Forbidden, "session_id", "this token is for another session")
	}
	return nil
}

func (s *sessionServer) resume(ctx context.Context, c *sessionConn, in *wire.SessionResume) (*session.Connection, error) {
	if e := convert.CheckID("session_id", in.SessionID); e != nil {
		return nil, e
	}
	if e := checkSession(c.caller, in.SessionID); e != nil {
		return nil, e
	}
	if in.LastSeq < 0 {
		return nil, wire.Invalid("last_seq", "counts from 0")
	}
	if e := socket.CheckKeepalive(in.KeepaliveMS); e != nil {
		return nil, e
	}
	return s.sessions.Resume(ctx, session.ResumeParams{
		Session: core.SessionID(in.SessionID), Tenant: c.caller.Tenant, Caller: c.caller, Remote: c.audit.by.address, Token: in.ResumeToken,
		Last:        in.LastSeq,
		KeepaliveMS: in.KeepaliveMS,
	}, c.ws)
}

// handleMessage handles one message of a session. The error, if any, is the answer to the message.
func (s *sessionServer) handleMessage(c *sessionConn, m socket.Message) *wire.Error {
	conn := c.session
	if m.Binary {
		return handleBinary(conn, m.Data)
	}
	typ, err := wire.TypeOf(m.Data)
	if err != nil {
		return convert.Error(err)
	}
	switch typ {
	case wire.AudioChunk{}.Type():
		return decoded(m.Data, func(in *wire.AudioChunk) *wire.Error { return s.handleChunk(conn, in) })
	case wire.UtteranceStart{}.Type():
		return decoded(m.Data, func(in *wire.UtteranceStart) *wire.Error { return s.handleUtteranceStart(conn, in) })
	case wire.SessionUpdate{}.Type():
		return decoded(m.Data, func(in *compat.SessionUpdate) *wire.Error { return s.handleUpdate(c, in.Translate()) })
	case wire.SessionCancel{}.Type():
		return decoded(m.Data, func(in *wire.SessionCancel) *wire.Error { return conn.Cancel(in.UtteranceID, core.JobID(in.JobID)) })
	case wire.AudioGone{}.Type():
		return decoded(m.Data, func(in *wire.AudioGone) *wire.Error { return conn.AudioGone(in.UtteranceIndex) })
	case wire.SessionResultAck{}.Type():
		return decoded(m.Data, func(in *wire.SessionResultAck) *wire.Error { return conn.AckResults(in.Seq) })
	case wire.Keepalive{}.Type():
		return decoded(m.Data, func(*wire.Keepalive) *wire.Error { conn.Keepalive(); return nil })
	case wire.SessionEnd{}.Type():
		return decoded(m.Data, func(*wire.SessionEnd) *wire.Error { c.end(); return nil })
	}
	return wire.Invalid("type", "there is no message %s from a session; /asyncapi.yaml lists what there is", typ)
}

// end ends the session, as its client asks for.
func (c *sessionConn) end() {
	if c.session.End() {
		c.audit.record("session.end", string(c.session.ID()), "", nil)
	}
}

// handleBinary handles a binary frame: audio, after its sequence number if the session's frames are numbered.
func handleBinary(conn *session.Connection, data []byte) *wire.Error {
	if !conn.Numbered() {
		return conn.Audio(session.AudioFrame{Data: data})
	}
	const prefix = 8
	if len(data) < prefix {
		return wire.Invalid("audio", "a numbered frame begins with its sequence number in %d bytes; this one has %d", prefix, len(data))
	}
	seq := binary.BigEndian.Uint64(data)
	if seq == 0 || seq > math.MaxInt64 {
		return wire.Invalid("seq", "counts from 1")
	}
	return conn.Audio(session.AudioFrame{Seq: int64(seq), Data: data[prefix:]})
}

// decoded decodes a message for fn.
func decoded[T any](text []byte, fn func(*T) *wire.Error) *wire.Error {
	var in T
	if err := wire.Decode(text, &in); err != nil {
		return convert.Error(err)
	}
	return fn(&in)
}

func (s *sessionServer) handleChunk(conn *session.Connection, in *wire.AudioChunk) *wire.Error {
	frame := session.AudioFrame{Seq: in.Seq, Utterance: in.UtteranceID, Request: core.RequestID(in.RequestID), Data: in.Data,
		Final: in.IsFinal, Traceparent: in.Traceparent}
	if in.Seq < 0 {
		return wire.Invalid("seq", "counts from 1")
	}
	if len(in.Data) == 0 && !in.IsFinal && in.Seq == 0 {
		return wire.Invalid("data", "is missing: an audio_chunk has audio in base64, or is_final")
	}
	var e *wire.Error
	if frame.Src, e = s.parseUtterance(in.UtteranceID, in.RequestID, in.SrcLang); e != nil {
		return e
	}
	return conn.Audio(frame)
}

func (s *sessionServer) handleUtteranceStart(conn *session.Connection, in *wire.UtteranceStart) *wire.Error {
	src, e := s.parseUtterance(in.UtteranceID, in.RequestID, in.SrcLang)
	if e != nil {
		return e
	}
	return conn.BeginTraced(in.UtteranceID, src, core.RequestID(in.RequestID), in.Traceparent)
}

// maxSessionRequestID is the maximum length of a request id in a session: further parts append a number to it.
const maxSessionRequestID = core.MaxIDLen - 8

// parseUtterance checks the identifiers of an utterance, and converts its language.
func (s *sessionServer) parseUtterance(utterance, request, src string) (core.Lang, *wire.Error) {
	if e := convert.CheckOptionalID("utterance_id", utterance); e != nil {
		return "", e
	}
	if e := convert.CheckOptionalID("request_id", request); e != nil {
		return "", e
	}
	if len(request) > maxSessionRequestID {
		return "", wire.Invalid("request_id", "must be at most %d characters in a session: those of further parts are longer",
			maxSessionRequestID)
	}
	if src == "" {
		return "", nil
	}
	return s.read.Lang("src_lang", src)
}

func (s *sessionServer) handleUpdate(c *sessionConn, in *wire.SessionUpdate) *wire.Error {
	var src core.Lang
	var e *wire.Error
	if in.Token != "" {
		if e := s.renewToken(c, in.Token); e != nil {
			return e
		}
	}
	if in.SrcLang != "" {
		if src, e = s.read.Lang("src_lang", in.SrcLang); e != nil {
			return e
		}
	}
	var options *core.Options
	if in.Options != nil {
		o, e := s.read.Options(in.Options)
		if e != nil {
			return e
		}
		options = &o
	}
	return c.session.Update(src, options, in)
}

// renewToken replaces the token of a connection. A token that is refused changes nothing: the other one is valid until it expires.
func (s *sessionServer) renewToken(c *sessionConn, token string) *wire.Error {
	const action = "session.renew"
	if e := c.session.AllowControl(); e != nil {
		return e
	}
	p, reason := s.auth.Authenticate(token)
	if reason != "" {
		c.audit.deny(action, string(c.session.ID()), reason)
		return wire.Invalid("token", "is not valid, or not any more: mint another one")
	}
	renewed, e := c.expiry.renew(p)
	if renewed { // from now on revocations are about the token that is in force
		current := c.expiry.current()
		c.session.SetCaller(current)
		s.enforcer.admit(c.ws, current)
		c.session.TerminateIf(s.enforcer.judge)
	}
	if renewed || e != nil {
		c.audit.record(action, string(c.session.ID()), "", e)
	}
	return e
}
