package server

import (
	"context"
	"encoding/binary"
	"math"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// sessionSocket opens /ws/session. The request ends here; the connection goes on by itself.
func (s *Server) sessionSocket(w http.ResponseWriter, r *http.Request) {
	token := socket.Token(r)
	grant, err := s.Keys.Session(token)
	if err != nil {
		s.turnAway(w, r, s.denied(token, "sessions: mint a session token"))
		return
	}
	conn, err := s.Hub.Accept(w, r)
	if err != nil {
		return // it was answered
	}
	s.sockets.Go(func() { s.serveSession(conn, &grant) })
}

// serveSession is a speaker's connection, from its first word to its last.
func (s *Server) serveSession(conn *socket.Conn, grant *auth.SessionGrant) {
	ctx := s.life
	seat, e := s.greet(ctx, conn, grant)
	if e != nil {
		socket.Refuse(conn, e)
		return
	}
	defer seat.Detach()
	conn.OnPong(seat.Pong)
	for {
		m, err := conn.Read()
		if err != nil {
			return
		}
		if e := s.speakerSaid(seat, m); e != nil {
			if e.Code == wire.RateLimited && isAudio(m) {
				conn.Close(wire.CloseOverloaded, e) // what was refused comes again after a resume
				continue
			}
			socket.ReplyError(conn, m, e)
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

// greet takes the first message: a session begins, or goes on.
func (s *Server) greet(ctx context.Context, conn *socket.Conn, grant *auth.SessionGrant) (*session.Connection, *wire.Error) {
	late := time.AfterFunc(s.FirstMessage, func() {
		conn.Close(wire.CloseIdle, wire.Errorf(wire.DeadlineExceeded, "no session_start or session_resume came within %s", s.FirstMessage))
	})
	defer late.Stop()
	m, err := conn.Read()
	if err != nil {
		return nil, wire.Errorf(wire.InvalidRequest, "the connection ended before its first message")
	}
	if m.Binary {
		return nil, wire.Errorf(wire.InvalidRequest, "the first message must be session_start or session_resume")
	}
	typ, err := wire.TypeOf(m.Data)
	if err != nil {
		return nil, convert.Error(err)
	}
	var seat *session.Connection
	switch typ {
	case wire.SessionStart{}.Type():
		var in wire.SessionStart
		if err = wire.Decode(m.Data, &in); err == nil {
			seat, err = s.startSession(ctx, conn, grant, &in)
		}
	case wire.SessionResume{}.Type():
		var in wire.SessionResume
		if err = wire.Decode(m.Data, &in); err == nil {
			seat, err = s.resumeSession(ctx, conn, grant, &in)
		}
	default:
		err = wire.Invalid("type", "the first message must be session_start or session_resume, not %s", typ)
	}
	if err != nil {
		return nil, convert.Error(err)
	}
	return seat, nil
}

func (s *Server) startSession(ctx context.Context, conn *socket.Conn, grant *auth.SessionGrant, in *wire.SessionStart) (*session.Connection, error) {
	if e := convert.CheckOptionalID("session_id", in.SessionID); e != nil {
		return nil, e
	}
	if grant.Session != "" && in.SessionID == "" {
		in.SessionID = string(grant.Session)
	}
	if e := ownSession(grant, in.SessionID); e != nil {
		return nil, e
	}
	if n := len(in.ResumeToken); n != 0 && (n < 16 || n > 128) {
		return nil, wire.Invalid("resume_token", "must be of 16 to 128 characters that nobody can guess, not of %d; or leave it out", n)
	}
	if len(in.Langs) != 2 {
		return nil, wire.Invalid("langs", "must be two languages, not %d", len(in.Langs))
	}
	p := session.StartParams{ID: core.SessionID(in.SessionID), Tenant: grant.Tenant, Request: in}
	var e *wire.Error
	for i, tag := range in.Langs {
		if p.Langs[i], e = s.Read.Lang("langs", tag); e != nil {
			return nil, e
		}
	}
	if p.Langs[0] == p.Langs[1] {
		return nil, wire.Invalid("langs", "must be two different languages")
	}
	if in.SrcLang != "" {
		if p.Src, e = s.Read.Lang("src_lang", in.SrcLang); e != nil {
			return nil, e
		}
	}
	if p.Options, e = s.Read.Options(&in.Options); e != nil {
		return nil, e
	}
	return s.Sessions.Start(ctx, p, conn)
}

// ownSession checks that a session is the one its token is for.
func ownSession(grant *auth.SessionGrant, id string) *wire.Error {
	if grant.Session != "" && string(grant.Session) != id {
		return wire.FieldErrorf(wire.Forbidden, "session_id", "this token is for another session")
	}
	return nil
}

func (s *Server) resumeSession(ctx context.Context, conn *socket.Conn, grant *auth.SessionGrant, in *wire.SessionResume) (*session.Connection, error) {
	if e := convert.CheckID("session_id", in.SessionID); e != nil {
		return nil, e
	}
	if e := ownSession(grant, in.SessionID); e != nil {
		return nil, e
	}
	if in.LastSeq < 0 {
		return nil, wire.Invalid("last_seq", "counts from 0")
	}
	return s.Sessions.Resume(ctx, session.ResumeParams{
		Session: core.SessionID(in.SessionID), Tenant: grant.Tenant, Token: in.ResumeToken, Last: in.LastSeq,
	}, conn)
}

// speakerSaid takes in one message of a session. The error, if any, is about the message.
func (s *Server) speakerSaid(seat *session.Connection, m socket.Message) *wire.Error {
	if m.Binary {
		return binaryAudio(seat, m.Data)
	}
	typ, err := wire.TypeOf(m.Data)
	if err != nil {
		return convert.Error(err)
	}
	switch typ {
	case wire.AudioChunk{}.Type():
		return speak(m.Data, func(in *wire.AudioChunk) *wire.Error { return s.chunk(seat, in) })
	case wire.UtteranceStart{}.Type():
		return speak(m.Data, func(in *wire.UtteranceStart) *wire.Error { return s.utteranceStart(seat, in) })
	case wire.SessionUpdate{}.Type():
		return speak(m.Data, func(in *wire.SessionUpdate) *wire.Error { return s.sessionUpdate(seat, in) })
	case wire.SessionCancel{}.Type():
		return speak(m.Data, func(in *wire.SessionCancel) *wire.Error { return seat.Cancel(in.UtteranceID, core.JobID(in.JobID)) })
	case wire.AudioGone{}.Type():
		return speak(m.Data, func(in *wire.AudioGone) *wire.Error { return seat.AudioGone(in.UtteranceIndex) })
	case wire.SessionResultAck{}.Type():
		return speak(m.Data, func(in *wire.SessionResultAck) *wire.Error { return seat.AckResults(in.Seq) })
	case wire.SessionKeepalive{}.Type():
		return speak(m.Data, func(*wire.SessionKeepalive) *wire.Error { seat.Keepalive(); return nil })
	case wire.SessionEnd{}.Type():
		return speak(m.Data, func(*wire.SessionEnd) *wire.Error { seat.End(); return nil })
	}
	return wire.Invalid("type", "there is no message %s from a session", typ)
}

// binaryAudio takes in a binary frame: audio, after its sequence number if the session's frames are numbered.
func binaryAudio(seat *session.Connection, data []byte) *wire.Error {
	if !seat.Numbered() {
		return seat.Audio(session.AudioFrame{Data: data})
	}
	const prefix = 8
	if len(data) < prefix {
		return wire.Invalid("audio", "a numbered frame begins with its sequence number in %d bytes; this one has %d", prefix, len(data))
	}
	seq := binary.BigEndian.Uint64(data)
	if seq == 0 || seq > math.MaxInt64 {
		return wire.Invalid("seq", "counts from 1")
	}
	return seat.Audio(session.AudioFrame{Seq: int64(seq), Data: data[prefix:]})
}

func speak[T any](text []byte, fn func(*T) *wire.Error) *wire.Error {
	var in T
	if err := wire.Decode(text, &in); err != nil {
		return convert.Error(err)
	}
	return fn(&in)
}

func (s *Server) chunk(seat *session.Connection, in *wire.AudioChunk) *wire.Error {
	w := session.AudioFrame{Seq: in.Seq, Utterance: in.UtteranceID, Request: core.RequestID(in.RequestID), Data: in.Data, Final: in.IsFinal}
	if in.Seq < 0 {
		return wire.Invalid("seq", "counts from 1")
	}
	var e *wire.Error
	if w.Src, e = s.names(in.UtteranceID, in.RequestID, in.SrcLang); e != nil {
		return e
	}
	return seat.Audio(w)
}

func (s *Server) utteranceStart(seat *session.Connection, in *wire.UtteranceStart) *wire.Error {
	src, e := s.names(in.UtteranceID, in.RequestID, in.SrcLang)
	if e != nil {
		return e
	}
	return seat.Begin(in.UtteranceID, src, core.RequestID(in.RequestID))
}

// maxSessionRequest leaves room for the number of a further part after a request id.
const maxSessionRequest = core.MaxIDLen - 8

// names checks what an utterance may be called, and reads its language.
func (s *Server) names(utterance, request, src string) (core.Lang, *wire.Error) {
	if e := convert.CheckOptionalID("utterance_id", utterance); e != nil {
		return "", e
	}
	if e := convert.CheckOptionalID("request_id", request); e != nil {
		return "", e
	}
	if len(request) > maxSessionRequest {
		return "", wire.Invalid("request_id", "must be of at most %d characters in a session: those of further parts are longer", maxSessionRequest)
	}
	if src == "" {
		return "", nil
	}
	return s.Read.Lang("src_lang", src)
}

func (s *Server) sessionUpdate(seat *session.Connection, in *wire.SessionUpdate) *wire.Error {
	var src core.Lang
	var e *wire.Error
	if in.SrcLang != "" {
		if src, e = s.Read.Lang("src_lang", in.SrcLang); e != nil {
			return e
		}
	}
	var options *core.Options
	if in.Options != nil {
		o, e := s.Read.Options(in.Options)
		if e != nil {
			return e
		}
		options = &o
	}
	return seat.Update(src, options, in)
}
