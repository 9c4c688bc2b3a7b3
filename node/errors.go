package node

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lingua-scheduler/lingua/wire"
)

// The reasons of rejected and failed jobs.
const (
	reasonBusy      = "NODE_BUSY"
	reasonFailed    = "NODE_FAILED"
	reasonPanic     = "NODE_PANIC"
	reasonShutdown  = "NODE_SHUTDOWN"
	reasonDeadline  = "DEADLINE_EXCEEDED"
	reasonModel     = "MODEL_NOT_AVAILABLE"
	reasonAudioLost = "AUDIO_LOST"
	reasonNoAudio   = "NO_AUDIO"
	reasonResult    = "RESULT_INVALID"
)

// reasonError is an error with a reason for the scheduler.
type reasonError struct{ reason, text string }

func (e *reasonError) Error() string { return e.text }

// Fail returns the error with which a handler fails a job for a reason: a short stable name, such as OUT_OF_MEMORY. The
// scheduler retries the job on another node.
func Fail(reason string) error { return &reasonError{reason, "the job failed: " + reason} }

var (
	// ErrBusy is returned by a handler that has no capacity for the job after all. The job loses no attempt.
	ErrBusy error = &reasonError{reasonBusy, "there is no capacity for the job"}
	// ErrNoAudio is returned by Job.Audio for a job that was dispatched over HTTP: Job.AudioRef may tell where its audio is.
	ErrNoAudio error = &reasonError{reasonNoAudio, "the job has no audio of its own: see its AudioRef"}
	// ErrNoPackets is returned by Job.Packets for audio in an encoding without packets.
	ErrNoPackets = errors.New("node: only opus audio has packets")
)

// NotAvailableError is returned by a handler that lacks a service which the node declared. For a while the scheduler gives
// the node no jobs that need the service, and it retries this job on another node.
type NotAvailableError struct {
	Service, Version string
	Reason           string
}

func (e NotAvailableError) Error() string {
	return fmt.Sprintf("service %s %s is not available: %s", e.Service, e.Version, e.Reason)
}

// RefusedError is returned by Run when the scheduler refuses the node for good: reconnecting would not help.
type RefusedError struct {
	Code wire.CloseCode
	Err  *wire.Error // the error that the scheduler sent; nil if none
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("the scheduler closed the connection with %d", int(e.Code))
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	switch e.Code {
	case wire.CloseUnauthorized:
		text += ": give the node a valid token (Config.Token)"
	case wire.CloseForbidden:
		text += ": the token is not for this node; check Config.ID and the tenant"
	case wire.CloseReplaced:
		text += ": another process connected as the same node; give each its own Config.ID"
	}
	return text
}

// Unwrap returns the error that the scheduler sent.
func (e *RefusedError) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return e.Err
}

// permanentError is an error that a retry at the same endpoint or URL would not change.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// isPermanent reports whether a retry is useless.
func isPermanent(err error) bool {
	var permanent permanentError
	var refused *RefusedError
	return errors.As(err, &permanent) || errors.As(err, &refused)
}

// handshakeError returns the error of a WebSocket handshake that failed. It does not contain the URL, which may hold a
// secret.
func handshakeError(resp *http.Response, err error) error {
	if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return withoutURL(err)
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized:
		return &RefusedError{Code: wire.CloseUnauthorized}
	case status == http.StatusForbidden:
		return &RefusedError{Code: wire.CloseForbidden}
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status/100 != 4:
		return fmt.Errorf("the scheduler answered %d", status)
	default:
		return permanentError{fmt.Errorf("the answer was %d in place of a WebSocket: check Config.URL", status)}
	}
}
