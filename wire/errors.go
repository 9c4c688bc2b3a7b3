package wire

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Code is a stable name for what went wrong.
type Code string

// The codes, by what they are about.
const (
	InvalidRequest       Code = "INVALID_REQUEST"
	MethodNotAllowed     Code = "METHOD_NOT_ALLOWED"
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	PayloadTooLarge      Code = "PAYLOAD_TOO_LARGE"
	Unauthorized         Code = "UNAUTHORIZED"
	Forbidden            Code = "FORBIDDEN"
	NotFound             Code = "NOT_FOUND"
	RateLimited          Code = "RATE_LIMITED"
	Internal             Code = "INTERNAL"

	StaleAttempt    Code = "STALE_ATTEMPT"
	StaleEpoch      Code = "STALE_EPOCH"
	NotHolder       Code = "NOT_HOLDER"
	RequestMismatch Code = "REQUEST_MISMATCH"

	PreferredNodeNotCapable   Code = "PREFERRED_NODE_NOT_CAPABLE"
	NoCapableNode             Code = "NO_CAPABLE_NODE"
	AllCandidatesFullOrFailed Code = "ALL_CANDIDATES_FULL_OR_FAILED"
	SchedulerDependencyDown   Code = "SCHEDULER_DEPENDENCY_DOWN"
	DeadlineExceeded          Code = "DEADLINE_EXCEEDED"
)

// Traits is what a code means to whoever receives it.
type Traits struct {
	Status    int  // of an HTTP answer
	Fatal     bool // on a socket, the connection is closed after it
	Retryable bool // the same request may succeed later, unchanged
}

var codes = map[Code]Traits{
	InvalidRequest:       {Status: 400},
	MethodNotAllowed:     {Status: 405},
	UnsupportedMediaType: {Status: 415},
	PayloadTooLarge:      {Status: 413, Fatal: true},
	Unauthorized:         {Status: 401, Fatal: true},
	Forbidden:            {Status: 403, Fatal: true},
	NotFound:             {Status: 404},
	RateLimited:          {Status: 429, Retryable: true},
	Internal:             {Status: 500, Fatal: true, Retryable: true},

	StaleAttempt:    {Status: 409},
	StaleEpoch:      {Status: 409, Fatal: true},
	NotHolder:       {Status: 409},
	RequestMismatch: {Status: 422},

	PreferredNodeNotCapable:   {Status: 409},
	NoCapableNode:             {Status: 503, Retryable: true},
	AllCandidatesFullOrFailed: {Status: 503, Retryable: true},
	SchedulerDependencyDown:   {Status: 503, Retryable: true},
	DeadlineExceeded:          {Status: 504, Retryable: true},
}

// Codes lists every code, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(codes)) }

// Traits returns what the code means. An unknown code means an internal error.
func (c Code) Traits() Traits {
	if t, ok := codes[c]; ok {
		return t
	}
	return codes[Internal]
}

// Error is the body of every answer that is not a success.
type Error struct {
	Code   Code   `json:"error" doc:"A stable name for what went wrong."`
	Detail string `json:"detail" doc:"A sentence for a person: what was wrong and what to do."`
	Field  string `json:"field,omitempty" doc:"The field of the request that was wrong."`
	JobID  string `json:"job_id,omitempty" doc:"The job, where one was made."`
	// Reasons counts the nodes that were passed over, by what spoke against them.
	Reasons map[string]int `json:"reasons,omitempty" doc:"How many nodes were passed over, by reason."`
	// RetryAfter, in seconds, is also sent as the Retry-After header. It is set by RetryIn, with RetryAfterMS.
	RetryAfter   int   `json:"retry_after,omitempty" doc:"Seconds after which a retry makes sense, rounded up."`
	RetryAfterMS int64 `json:"retry_after_ms,omitempty" doc:"The same in milliseconds."`
}

// RetryIn sets after how long a retry makes sense, and returns e.
func (e *Error) RetryIn(d time.Duration) *Error {
	e.RetryAfterMS = d.Milliseconds()
	e.RetryAfter = int((d + time.Second - 1) / time.Second)
	return e
}

// Errorf makes an error with a sentence.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Invalid makes the error for a field that is not as it should be.
func Invalid(field, format string, args ...any) *Error {
	return Wrong(InvalidRequest, field, format, args...)
}

// Wrong makes an error that is about one field of the request.
func Wrong(code Code, field, format string, args ...any) *Error {
	return &Error{Code: code, Field: field, Detail: field + ": " + fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }
