package wire

import (
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"
)

// Code is the stable name of an error.
type Code string

// The error codes: of requests, of job reports, and of dispatch.
const (
	InvalidRequest       Code = "INVALID_REQUEST"
	MethodNotAllowed     Code = "METHOD_NOT_ALLOWED"
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	PayloadTooLarge      Code = "PAYLOAD_TOO_LARGE"
	Unauthorized         Code = "UNAUTHORIZED"
	Forbidden            Code = "FORBIDDEN"
	NotFound             Code = "NOT_FOUND"
	NameInUse            Code = "NAME_IN_USE"
	RateLimited          Code = "RATE_LIMITED"
	ConfigInvalid        Code = "CONFIG_INVALID"
	Internal             Code = "INTERNAL"

	StaleAttempt     Code = "STALE_ATTEMPT"
	StaleEpoch       Code = "STALE_EPOCH"
	NotHolder        Code = "NOT_HOLDER"
	RequestMismatch  Code = "REQUEST_MISMATCH"
	SessionEndedCode Code = "SESSION_ENDED"
	MatchesChanged   Code = "MATCHES_CHANGED"

	PreferredNodeNotCapable   Code = "PREFERRED_NODE_NOT_CAPABLE"
	NoCapableNode             Code = "NO_CAPABLE_NODE"
	AllCandidatesFullOrFailed Code = "ALL_CANDIDATES_FULL_OR_FAILED"
	CannotBeMet               Code = "CANNOT_BE_MET"
	QueueFull                 Code = "QUEUE_FULL"
	SchedulerDependencyDown   Code = "SCHEDULER_DEPENDENCY_DOWN"
	DeadlineExceeded          Code = "DEADLINE_EXCEEDED"
	Cancelled                 Code = "CANCELLED"

	StatsNotReady Code = "STATS_NOT_READY"
)

// Retryable reports whether the same request, unchanged, may succeed later. A code that this version of the package does
// not know counts as Internal, which is retryable.
func (c Code) Retryable() bool {
	switch c {
	case InvalidRequest, MethodNotAllowed, UnsupportedMediaType, PayloadTooLarge, Unauthorized, Forbidden, NotFound, ConfigInvalid,
		StaleAttempt, StaleEpoch, NotHolder, RequestMismatch, SessionEndedCode, MatchesChanged, PreferredNodeNotCapable, Cancelled:
		return false
	}
	return true
}

// Error is the body of every HTTP response that is not a success, and the content of an ErrorFrame.
type Error struct {
	Code   Code   `json:"error" doc:"A stable name of the error."`
	Detail string `json:"detail" doc:"A sentence for people: what is wrong and what to do about it."`
	Field  string `json:"field,omitempty" doc:"The field of the request that is invalid."`
	JobID  string `json:"job_id,omitempty" doc:"The job, if one was created."`
	// Reasons counts the candidates that were rejected, by reason.
	Reasons map[string]int `json:"reasons,omitempty" doc:"How many candidates were rejected, by reason."`
	// RetryAfter, in seconds, is also sent as the Retry-After header. RetryIn sets it together with RetryAfterMS.
	RetryAfter   int   `json:"retry_after,omitempty" doc:"Seconds after which a retry makes sense, rounded up."`
	RetryAfterMS int64 `json:"retry_after_ms,omitempty" doc:"The same in milliseconds."`
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }

// RetryIn sets the time after which a retry makes sense, in seconds and in milliseconds, and returns e.
func (e *Error) RetryIn(d time.Duration) *Error {
	e.RetryAfterMS = d.Milliseconds()
	e.RetryAfter = int((d + time.Second - 1) / time.Second)
	return e
}

const (
	// MaxQuoted is how many bytes of a received text an error detail repeats.
	MaxQuoted = 64
	// maxCause is how many bytes of another error it repeats. That error limits its own quotes.
	maxCause = 256
)

// Quote truncates a received text to what an error detail may repeat of it, at a character boundary.
func Quote(text string) string { return truncate(text, MaxQuoted) }

func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// truncateArgs truncates the texts among the arguments of an error detail. The format is a literal of this program, so
// only the arguments can be text that was received.
func truncateArgs(args []any) []any {
	truncated := make([]any, len(args))
	for i, arg := range args {
		truncated[i] = arg
		if cause, ok := arg.(error); ok {
			truncated[i] = truncate(cause.Error(), maxCause)
		} else if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
			truncated[i] = Quote(v.String())
		}
	}
	return truncated
}

// Errorf returns an error with a formatted detail. Arguments that are texts are truncated to MaxQuoted bytes.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, truncateArgs(args)...)}
}

// Invalid returns an InvalidRequest error about one field of a request.
func Invalid(field, format string, args ...any) *Error {
	return FieldErrorf(InvalidRequest, field, format, args...)
}

// FieldErrorf returns an error about one field of a request. The field's name is truncated like an argument, because it may
// be part of the request.
func FieldErrorf(code Code, field, format string, args ...any) *Error {
	field = Quote(field)
	e := Errorf(code, format, args...)
	e.Field, e.Detail = field, field+": "+e.Detail
	return e
}
