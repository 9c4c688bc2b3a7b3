package socket

import (
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// ReadFirst reads the first message of a connection, which must be of one of the types. A connection that sends nothing within the
// timeout is closed. The text is valid until the next Read.
func ReadFirst(conn *Conn, timeout time.Duration, types ...wire.FrameType) (typ wire.FrameType, text []byte, err error) {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	want := strings.Join(names, " or ")
	timer := time.AfterFunc(timeout, func() {
		conn.Close(wire.CloseIdle, wire.Errorf(wire.DeadlineExceeded, "no %s came within %s", want, timeout))
	})
	defer timer.Stop()
	m, err := conn.Read()
	switch {
	case err != nil:
		return "", nil, wire.Errorf(wire.InvalidRequest, "the connection ended before its first message")
	case m.Binary:
		return "", nil, wire.Errorf(wire.InvalidRequest, "the first message must be %s", want)
	}
	if typ, err = wire.TypeOf(m.Data); err != nil {
		return "", nil, err
	}
	if !slices.Contains(types, typ) {
		return "", nil, wire.Invalid("type", "the first message must be %s, not %s", want, typ)
	}
	return typ, m.Data, nil
}

// Protect calls serve, which serves a connection. If it panics, the panic is logged and this connection is closed with an error;
// all others go on.
func Protect(conn *Conn, log *slog.Logger, serve func()) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a connection handler panicked", "panic", p, "stack", string(debug.Stack()))
			Refuse(conn, wire.Errorf(wire.Internal, "something went wrong here, not with your message; it was logged"))
		}
	}()
	serve()
}

// Refuse closes a connection with an error.
func Refuse(conn *Conn, e *wire.Error) { conn.Close(CloseCode(e.Code), e) }

// ReplyError answers a message with an error, and closes the connection if the error is fatal.
func ReplyError(conn *Conn, m Message, e *wire.Error) {
	if wirespec.Fatal(e.Code) {
		Refuse(conn, e)
		return
	}
	answer := wire.ErrorFrame{Error: *e}
	if typ, err := wire.TypeOf(m.Data); err == nil && !m.Binary {
		answer.ReplyTo = wire.Quote(string(typ))
	}
	conn.Send(answer)
}

// CloseCode is the close code for an error code.
func CloseCode(code wire.Code) wire.CloseCode {
	switch code {
	case wire.Unauthorized:
		return wire.CloseUnauthorized
	case wire.Forbidden:
		return wire.CloseForbidden
	case wire.NotFound:
		return wire.CloseNotFound
	case wire.StaleEpoch:
		return wire.CloseReplaced
	case wire.NameInUse:
		return wire.CloseNameInUse
	case wire.PayloadTooLarge:
		return wire.CloseTooLarge
	case wire.RateLimited:
		return wire.CloseTooFast
	case wire.SchedulerDependencyDown, wire.AllCandidatesFullOrFailed:
		return wire.CloseDraining
	case wire.Internal:
		return wire.CloseInternal
	}
	return wire.CloseBadMessage
}
