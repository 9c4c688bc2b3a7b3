package lab

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/url"
	"slices"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// Codes of failures that are not error codes of the scheduler.
const (
	codeTimeout     = "TIMEOUT"      // no outcome within Config.Timeout
	codeConnection  = "CONNECTION"   // the connection failed, or was refused
	codeSessionLost = "SESSION_LOST" // the session of the utterance ended with an error
	codeJobEnded    = "JOB_ENDED"    // the job ended without a result; the reason is that of its record
	codeNotSent     = "NOT_SENT"     // the generator did not send the request
)

// failure is why a request has no result.
type failure struct {
	code   string
	reason string // further distinguishes failures with the same code; may be empty
	detail string // for people; of the first such failure
}

// failureOf classifies the error of a request.
func failureOf(err error) failure {
	var e *wire.Error
	var closed *client.ConnectionError
	var timeout net.Error
	switch {
	case errors.As(err, &e):
		return failure{code: string(e.Code), reason: mainReason(e.Reasons), detail: e.Detail}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return failure{code: codeTimeout, detail: "no outcome in time"}
	case errors.As(err, &closed):
		return failure{code: codeConnection, detail: closed.Error()}
	}
	return failure{code: codeConnection, detail: withoutURL(err).Error()}
}

// mainReason returns the reason for which most candidates were rejected.
func mainReason(reasons map[string]int) string {
	if len(reasons) == 0 {
		return ""
	}
	return slices.MinFunc(slices.Collect(maps.Keys(reasons)), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
}

// withoutURL returns the cause of an error of net/http, which repeats the URL: it may hold a password.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
