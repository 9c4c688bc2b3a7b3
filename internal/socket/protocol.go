package socket

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// ReadFirst reads the only message that may come first. A connection that sends nothing within the timeout is closed.
func ReadFirst[T wire.Frame](conn *Conn, timeout time.Duration) (*T, error) {
	var in T
	timer := time.AfterFunc(timeout, func() {
		conn.Close(wire.CloseIdle, wire.Errorf(wire.DeadlineExceeded, "no %s came within %s", in.Type(), timeout))
	})
	defer timer.Stop()
	m, err := conn.Read()
	if err != nil {
		return nil, wire.Errorf(wire.InvalidRequest, "the connection ended before its first message")
	}
	if m.Binary {
		return nil, wire.Errorf(wire.InvalidRequest, "the first message must be %s", in.Type())
	}
	typ, err := wire.TypeOf(m.Data)
	if err != nil {
		return nil, err
	}
	if typ != in.Type() {
		return nil, wire.Invalid("type", "the first message must be %s, not %s", in.Type(), typ)
	}
	if err := wire.Decode(m.Data, &in); err != nil {
		return nil, err
	}
	return &in, nil
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

// CloseCode is the close code of an error.
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
