package client

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lingua-scheduler/lingua/wire"
)

var (
	// ErrClosed is how the events of a session end that was closed by Close.
	ErrClosed = errors.New("client: the session was closed")
	// ErrEnded says that nothing can be said after End: start another session.
	ErrEnded = errors.New("client: the session has ended; start another to say more")
	// ErrUnanswered says that so much audio waits for its results that no more is taken: wait for some, or write less.
	ErrTooMuchAudio = errors.New("client: too much audio waits for its results; wait for some of them before writing more")
	// ErrAudioGone says that the scheduler asked for audio that is not kept any more. The session cannot go on.
	ErrAudioDiscarded = errors.New("client: the scheduler asks for audio that is not kept any more; start another session")
)

// LostError says how a connection was lost or refused. As the end of a session's events it says that the session will
// not come back; errors.As finds the *wire.Error that the scheduler sent before it, if there was one.
type ConnectionError struct {
	Code   wire.CloseCode   // with which the scheduler closed; 0: it did not say
	Status int              // of the HTTP answer, where the connection was refused
	Frame   *wire.ErrorFrame // what it said before; nil: nothing
	Err    error            // what happened on the connection

	unreached bool // nobody answered at all
	stray     bool // what answered is no scheduler
	ours      bool // if it was replaced, that may be by a connection of our own
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

// Unwrap returns what the scheduler said and what happened on the connection.
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

// retry reports whether coming back makes sense. A close code decides; where it did not arrive, what was said before.
func (e *ConnectionError) retry() bool {
	switch {
	case e.stray:
		return false
	case e.Code != 0:
		return e.Code.Retry() || e.Code == wire.CloseReplaced && e.ours
	case e.Status != 0:
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
	case e.Frame != nil:
		return e.Frame.Code.Retryable()
	}
	return true
}
