package node

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lingua-scheduler/lingua/wire"
)

// Why jobs end, in words of the node.
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

// failure is an error that tells the scheduler a reason.
type failure struct{ reason, text string }

func (f *failure) Error() string { return f.text }

// Fail makes the error with which a handler gives a job up for a reason: a short stable name, such as OUT_OF_MEMORY. The
// job is tried on another node.
func Fail(reason string) error { return &failure{reason, "the job failed: " + reason} }

var (
	// ErrBusy is what a handler returns that finds no room for the job after all. It costs the job no attempt.
	ErrBusy error = &failure{reasonBusy, "there is no room for the job"}
	// ErrNoAudio says that the audio of a job is not here: it came over HTTP, and Job.AudioRef may say where it is.
	ErrNoAudio error = &failure{reasonNoAudio, "the job brings no audio of its own: see its AudioRef"}
)

// NotAvailable is the error with which a handler says that a service it needs is missing after all. The scheduler gives the
// node no jobs that need it for a while, and tries this one on another node.
type NotAvailable struct {
	Service, Version string
	Reason           string
}

func (n NotAvailable) Error() string {
	return fmt.Sprintf("service %s %s is not available: %s", n.Service, n.Version, n.Reason)
}

// Refused is the error with which Run ends when the scheduler does not want the node back as it is.
type Refused struct {
	Code wire.CloseCode
	Said *wire.Error // what the scheduler said about it; nil if nothing
}

func (r *Refused) Error() string {
	text := fmt.Sprintf("the scheduler ended it with %d", int(r.Code))
	if r.Said != nil {
		text += " (" + r.Said.Error() + ")"
	}
	switch r.Code {
	case wire.CloseUnauthorized:
		text += ": give the node a valid token (Config.Token)"
	case wire.CloseForbidden:
		text += ": the token is not for this node; check Config.ID and the tenant"
	case wire.CloseReplaced:
		text += ": another process connected as the same node; give each its own Config.ID"
	}
	return text
}

// Unwrap gives access to what the scheduler said.
func (r *Refused) Unwrap() error {
	if r.Said == nil {
		return nil
	}
	return r.Said
}

// final is an error after which trying again is no use.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// hopeless reports whether trying again is no use.
func hopeless(err error) bool {
	var f final
	var r *Refused
	return errors.As(err, &f) || errors.As(err, &r)
}

// handshakeError judges an answer that was not the beginning of a socket. The client's own error is not passed on where it
// could quote the URL.
func handshakeError(resp *http.Response, err error) error {
	if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return withoutURL(err)
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized:
		return &Refused{Code: wire.CloseUnauthorized}
	case status == http.StatusForbidden:
		return &Refused{Code: wire.CloseForbidden}
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status/100 != 4:
		return fmt.Errorf("the scheduler answered %d", status)
	default:
		return final{fmt.Errorf("%d was answered where the node socket should be: check Config.URL", status)}
	}
}
