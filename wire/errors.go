package wire

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"
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

// MaxQuoted is how many bytes an error text repeats of one thing that somebody sent.
const MaxQuoted = 64

// maxCause is how many bytes it repeats of another error, which quotes for itself.
const maxCause = 256

// Quote shortens what somebody sent to what an error text may repeat of it.
func Quote(sent string) string { return shorten(sent, MaxQuoted) }

func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// quoted shortens the texts among the arguments of an error: a sentence of ours is in the format, so what comes as an
// argument may be what somebody sent.
func quoted(args []any) []any {
	short := make([]any, len(args))
	for i, arg := range args {
		short[i] = arg
		if cause, ok := arg.(error); ok {
			short[i] = shorten(cause.Error(), maxCause)
		} else if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
			short[i] = Quote(v.String())
		}
	}
	return short
}

// Errorf makes an error with a sentence. Of arguments that are texts, no more than MaxQuoted bytes are repeated.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, quoted(args)...)}
}

// Invalid makes the error for a field that is not as it should be.
func Invalid(field, format string, args ...any) *Error {
	return Wrong(InvalidRequest, field, format, args...)
}

// Wrong makes an error that is about one field of the request. The field's name may be what somebody sent, too.
func Wrong(code Code, field, format string, args ...any) *Error {
	field = Quote(field)
	e := Errorf(code, format, args...)
	e.Field, e.Detail = field, field+": "+e.Detail
	return e
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }
