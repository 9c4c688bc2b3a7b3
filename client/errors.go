package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

var (
	// ErrClosed ends the events of a session that was closed with Close.
	ErrClosed = errors.New("client: the session was closed")
	// ErrEnded is returned by methods that send something after End.
	ErrEnded = errors.New("client: the session has ended; start another one")
	// ErrTooMuchAudio is returned while so much audio waits for its results that no more is accepted.
	ErrTooMuchAudio = errors.New("client: too much audio waits for its results; wait for some of them before writing more")
	// ErrAudioDiscarded ends a session that cannot be resumed, because the scheduler asked for audio that is no longer kept.
	ErrAudioDiscarded = errors.New("client: the scheduler asks for audio that is no longer kept; start another session")
)

var (
	errIdle         = errors.New("neither a message nor a ping arrived for too long")
	errGoAway       = errors.New("the scheduler asked to reconnect")
	errSessionEnded = errors.New("the session has ended")
)

// ConnectionError describes how a connection was lost or refused. As the last error of Events it means that the session
// cannot be resumed. errors.As finds the *wire.Error that the scheduler sent, if any.
type ConnectionError struct {
	Code   wire.CloseCode   // the close code; 0: there was none
	Status int              // the HTTP status of a refused handshake
	Frame  *wire.ErrorFrame // the error that the scheduler sent before it closed the connection; nil: none
	Err    error            // the error of the connection

	unreachable       bool // nothing answered at the endpoint
	notScheduler      bool // the endpoint is not a scheduler
	replacedByOwnConn bool // if the connection was replaced, that may be by an earlier attempt of this session
}

func (e *ConnectionError) Error() string {
	text := "client: the connection was lost"
	switch {
	case e.Code != 0:
		text = fmt.Sprintf("client: the scheduler closed the connection with %d", e.Code)
	case e.Status != 0:
		text = fmt.Sprintf("client: the scheduler refused the connection with %d %s", e.Status, http.StatusText(e.Status))
	}
	switch {
	case e.Frame != nil:
		return text + ": " + e.Frame.Error.Error()
	case e.Code == 0 && e.Status == 0 && e.Err != nil:
		return text + ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the error that the scheduler sent and the error of the connection.
func (e *ConnectionError) Unwrap() []error {
	var all []error
	if e.Frame != nil {
		all = append(all, &e.Frame.Error)
	}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}

// isRetryable reports whether to connect again. The close code decides; without one, the error that preceded it.
func (e *ConnectionError) isRetryable() bool {
	switch {
	case e.notScheduler:
		return false
	case e.Code != 0:
		return e.Code.Retry() || e.Code == wire.CloseReplaced && e.replacedByOwnConn
	case e.Status != 0:
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
	case e.Frame != nil:
		return e.Frame.Code.Retryable()
	}
	return true
}

// isRetryable reports whether to connect again after an error.
func isRetryable(err error) bool {
	var e *ConnectionError
	return errors.As(err, &e) && e.isRetryable()
}

// isAbsent reports whether there is no scheduler at an endpoint. That says nothing about the other endpoints.
func isAbsent(err error) bool {
	var e *ConnectionError
	return errors.As(err, &e) && (e.unreachable || e.notScheduler)
}

// shouldMove reports whether a connection was lost because its instance is gone or stopping, so that another endpoint is
// better. Otherwise the instance is probably still there, with the audio of the session.
func shouldMove(err error) bool {
	var e *ConnectionError
	return errors.Is(err, errGoAway) || errors.Is(err, errIdle) || errors.As(err, &e) && e.Code == wire.CloseDraining
}

// retryAfter returns how long the scheduler asked to stay away; 0 if it did not.
func retryAfter(err error) time.Duration {
	var e *ConnectionError
	if errors.As(err, &e) && e.Frame != nil {
		return milliseconds(e.Frame.RetryAfterMS)
	}
	return 0
}

// invalidMessage returns the error of a message that cannot be decoded. It ends the session, because a resumed session would
// receive the same message.
func invalidMessage(err error) error {
	return fmt.Errorf("client: the scheduler sent an invalid message; is this package as new as the scheduler? %w", err)
}
