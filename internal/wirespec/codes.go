package wirespec

import (
	"maps"
	"net/http"
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// codeInfo is what an error code means for the scheduler's answer.
type codeInfo struct {
	status int  // of an HTTP response
	fatal  bool // the connection is closed after an error frame with the code
}

var codes = map[wire.Code]codeInfo{
	wire.InvalidRequest:       {status: http.StatusBadRequest},
	wire.MethodNotAllowed:     {status: http.StatusMethodNotAllowed},
	wire.UnsupportedMediaType: {status: http.StatusUnsupportedMediaType},
	wire.PayloadTooLarge:      {status: http.StatusRequestEntityTooLarge, fatal: true},
	wire.Unauthorized:         {status: http.StatusUnauthorized, fatal: true},
	wire.Forbidden:            {status: http.StatusForbidden, fatal: true},
	wire.NotFound:             {status: http.StatusNotFound},
	wire.NameInUse:            {status: http.StatusServiceUnavailable, fatal: true},
	wire.RateLimited:          {status: http.StatusTooManyRequests},
	wire.ConfigInvalid:        {status: http.StatusUnprocessableEntity},
	wire.Internal:             {status: http.StatusInternalServerError, fatal: true},

	wire.StaleAttempt:     {status: http.StatusConflict},
	wire.StaleEpoch:       {status: http.StatusConflict, fatal: true},
	wire.NotHolder:        {status: http.StatusConflict},
	wire.RequestMismatch:  {status: http.StatusUnprocessableEntity},
	wire.SessionEndedCode: {status: http.StatusGone, fatal: true},
	wire.MatchesChanged:   {status: http.StatusConflict},

	wire.PreferredNodeNotCapable:   {status: http.StatusConflict},
	wire.NoCapableNode:             {status: http.StatusServiceUnavailable},
	wire.AllCandidatesFullOrFailed: {status: http.StatusServiceUnavailable},
	wire.CannotBeMet:               {status: http.StatusServiceUnavailable},
	wire.QueueFull:                 {status: http.StatusServiceUnavailable},
	wire.SchedulerDependencyDown:   {status: http.StatusServiceUnavailable},
	wire.DeadlineExceeded:          {status: http.StatusGatewayTimeout},
	wire.Cancelled:                 {status: http.StatusConflict},

	wire.StatsNotReady: {status: http.StatusServiceUnavailable},
}

// Codes returns every error code, sorted.
func Codes() []wire.Code { return slices.Sorted(maps.Keys(codes)) }

// Status returns the HTTP status of a response with the code. An unknown code counts as wire.Internal.
func Status(c wire.Code) int { return lookup(c).status }

// Fatal reports whether the connection is closed after an error frame with the code. An unknown code counts as
// wire.Internal.
func Fatal(c wire.Code) bool { return lookup(c).fatal }

func lookup(c wire.Code) codeInfo {
	if known, ok := codes[c]; ok {
		return known
	}
	return codes[wire.Internal]
}
