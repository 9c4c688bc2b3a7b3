package wirespec_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/test/sources"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestEveryFrameIsInTheTable(t *testing.T) {
	t.Parallel()
	declared, err := sources.Names("../../wire", `func \((\w+)\) Type\(\)`)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, f := range wirespec.Frames() {
		listed = append(listed, reflect.TypeOf(f.Frame).Name())
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if diff := cmp.Diff(declared, slices.Compact(listed)); diff != "" {
		t.Errorf("frames (-declared +in the table):\n%s", diff)
	}
}

type meaning struct {
	Status int
	Fatal  bool
}

// wantCodes repeats the table by hand: callers depend on these names and numbers.
var wantCodes = map[wire.Code]meaning{
	"INVALID_REQUEST":        {Status: 400},
	"METHOD_NOT_ALLOWED":     {Status: 405},
	"UNSUPPORTED_MEDIA_TYPE": {Status: 415},
	"PAYLOAD_TOO_LARGE":      {Status: 413, Fatal: true},
	"UNAUTHORIZED":           {Status: 401, Fatal: true},
	"FORBIDDEN":              {Status: 403, Fatal: true},
	"NOT_FOUND":              {Status: 404},
	"NAME_IN_USE":            {Status: 503, Fatal: true},
	"RATE_LIMITED":           {Status: 429},
	"CONFIG_INVALID":         {Status: 422},
	"INTERNAL":               {Status: 500, Fatal: true},

	"STALE_ATTEMPT":    {Status: 409},
	"STALE_EPOCH":      {Status: 409, Fatal: true},
	"NOT_HOLDER":       {Status: 409},
	"REQUEST_MISMATCH": {Status: 422},
	"SESSION_ENDED":    {Status: 410, Fatal: true},
	"MATCHES_CHANGED":  {Status: 409},

	"PREFERRED_NODE_NOT_CAPABLE":    {Status: 409},
	"NO_CAPABLE_NODE":               {Status: 503},
	"ALL_CANDIDATES_FULL_OR_FAILED": {Status: 503},
	"CANNOT_BE_MET":                 {Status: 503},
	"QUEUE_FULL":                    {Status: 503},
	"SCHEDULER_DEPENDENCY_DOWN":     {Status: 503},
	"DEADLINE_EXCEEDED":             {Status: 504},
	"CANCELLED":                     {Status: 409},

	"STATS_NOT_READY": {Status: 503},
}

func TestCodeTable(t *testing.T) {
	t.Parallel()
	got := make(map[wire.Code]meaning)
	for _, c := range wirespec.Codes() {
		got[c] = meaning{Status: wirespec.Status(c), Fatal: wirespec.Fatal(c)}
	}
	if diff := cmp.Diff(wantCodes, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	if !slices.IsSorted(wirespec.Codes()) {
		t.Errorf("Codes is not sorted: %v", wirespec.Codes())
	}
}

// A constant without a row in the table would be answered as an internal error.
func TestEveryCodeIsInTheTable(t *testing.T) {
	t.Parallel()
	declared, err := sources.Names("../../wire", `\bCode += "(\w+)"`)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, c := range wirespec.Codes() {
		listed = append(listed, string(c))
	}
	slices.Sort(declared)
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("codes (-declared +in the table):\n%s", diff)
	}
}

// Proxies and HTTP libraries retry by the status alone, so it must agree with Retryable.
func TestStatusAgreesWithRetryable(t *testing.T) {
	t.Parallel()
	for _, c := range wirespec.Codes() {
		status := wirespec.Status(c)
		if status < 400 || status > 599 {
			t.Errorf("%s: status %d is no error", c, status)
		}
		if want := status >= 500 || status == 429; c.Retryable() != want {
			t.Errorf("%s: status %d, retryable %v", c, status, c.Retryable())
		}
	}
}

// Codes share a status only where HTTP has no finer one: conflicts over the holder of a job, contents that cannot be
// used, and a service that is unavailable.
func TestCodesThatShareAStatus(t *testing.T) {
	t.Parallel()
	byStatus := make(map[int][]wire.Code)
	for _, c := range wirespec.Codes() {
		byStatus[wirespec.Status(c)] = append(byStatus[wirespec.Status(c)], c)
	}
	shared := make(map[int][]wire.Code)
	for status, codes := range byStatus {
		if len(codes) > 1 {
			shared[status] = codes
		}
	}
	want := map[int][]wire.Code{
		409: {wire.Cancelled, wire.MatchesChanged, wire.NotHolder, wire.PreferredNodeNotCapable, wire.StaleAttempt, wire.StaleEpoch},
		422: {wire.ConfigInvalid, wire.RequestMismatch},
		503: {wire.AllCandidatesFullOrFailed, wire.CannotBeMet, wire.NameInUse, wire.NoCapableNode, wire.QueueFull, wire.SchedulerDependencyDown, wire.StatsNotReady},
	}
	if diff := cmp.Diff(want, shared); diff != "" {
		t.Errorf("codes by status (-want +got):\n%s", diff)
	}
}

func TestUnknownCodeIsInternal(t *testing.T) {
	t.Parallel()
	for _, c := range []wire.Code{"", "NONSENSE", "invalid_request"} {
		if wirespec.Status(c) != wirespec.Status(wire.Internal) || wirespec.Fatal(c) != wirespec.Fatal(wire.Internal) {
			t.Errorf("%q: status %d, fatal %v", c, wirespec.Status(c), wirespec.Fatal(c))
		}
	}
}

// The table cannot be changed by a caller: Codes returns a copy.
func TestCodesReturnsACopy(t *testing.T) {
	t.Parallel()
	codes := wirespec.Codes()
	codes[0] = "CHANGED"
	if wirespec.Codes()[0] == "CHANGED" {
		t.Error("a caller's change is visible to the next caller")
	}
}
