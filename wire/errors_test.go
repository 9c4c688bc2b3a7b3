package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wantCodes is the table once more, by hand: callers have written these names and numbers into their programs.
var wantCodes = map[Code]Traits{
	"INVALID_REQUEST":        {Status: 400},
	"METHOD_NOT_ALLOWED":     {Status: 405},
	"UNSUPPORTED_MEDIA_TYPE": {Status: 415},
	"PAYLOAD_TOO_LARGE":      {Status: 413, Fatal: true},
	"UNAUTHORIZED":           {Status: 401, Fatal: true},
	"FORBIDDEN":              {Status: 403, Fatal: true},
	"NOT_FOUND":              {Status: 404},
	"RATE_LIMITED":           {Status: 429, Retryable: true},
	"INTERNAL":               {Status: 500, Fatal: true, Retryable: true},

	"STALE_ATTEMPT":    {Status: 409},
	"STALE_EPOCH":      {Status: 409, Fatal: true},
	"NOT_HOLDER":       {Status: 409},
	"REQUEST_MISMATCH": {Status: 422},

	"PREFERRED_NODE_NOT_CAPABLE":    {Status: 409},
	"NO_CAPABLE_NODE":               {Status: 503, Retryable: true},
	"ALL_CANDIDATES_FULL_OR_FAILED": {Status: 503, Retryable: true},
	"SCHEDULER_DEPENDENCY_DOWN":     {Status: 503, Retryable: true},
	"DEADLINE_EXCEEDED":             {Status: 504, Retryable: true},
}

func TestCodeTable(t *testing.T) {
	t.Parallel()
	got := make(map[Code]Traits)
	for _, c := range Codes() {
		got[c] = c.Traits()
	}
	if diff := cmp.Diff(wantCodes, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	if !slices.IsSorted(Codes()) {
		t.Errorf("Codes is not sorted: %v", Codes())
	}
}

// A constant without a line in the table would go out as an internal error.
func TestEveryCodeHasTraits(t *testing.T) {
	t.Parallel()
	var declared []Code
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Code" {
				for _, v := range spec.Values {
					text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					declared = append(declared, Code(text))
				}
			}
			return true
		})
	}
	slices.Sort(declared)
	if diff := cmp.Diff(declared, Codes()); diff != "" {
		t.Errorf("codes (-declared +in the table):\n%s", diff)
	}
}

func TestTraitsMakeSense(t *testing.T) {
	t.Parallel()
	for _, c := range Codes() {
		tr := c.Traits()
		if tr.Status < 400 || tr.Status > 599 {
			t.Errorf("%s: status %d is no error", c, tr.Status)
		}
		// A proxy or a client library goes by the status alone: it must not contradict what we say.
		if want := tr.Status >= 500 || tr.Status == 429; tr.Retryable != want {
			t.Errorf("%s: status %d, retryable %v", c, tr.Status, tr.Retryable)
		}
	}
}

// Codes share a status only where HTTP has no finer word: conflicts over who has a job, and a service that
// cannot serve now.
func TestCodesThatShareAStatus(t *testing.T) {
	t.Parallel()
	by := make(map[int][]Code)
	for _, c := range Codes() {
		by[c.Traits().Status] = append(by[c.Traits().Status], c)
	}
	shared := make(map[int][]Code)
	for status, codes := range by {
		if len(codes) > 1 {
			shared[status] = codes
		}
	}
	want := map[int][]Code{
		409: {NotHolder, PreferredNodeNotCapable, StaleAttempt, StaleEpoch},
		503: {AllCandidatesFullOrFailed, NoCapableNode, SchedulerDependencyDown},
	}
	if diff := cmp.Diff(want, shared); diff != "" {
		t.Errorf("codes by status (-want +got):\n%s", diff)
	}
}

func TestUnknownCodeIsInternal(t *testing.T) {
	t.Parallel()
	for _, c := range []Code{"", "NONSENSE", "invalid_request"} {
		if diff := cmp.Diff(Internal.Traits(), c.Traits()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c, diff)
		}
	}
}

// The table is the package's own: what Codes hands out is a copy.
func TestCodesCannotBeChanged(t *testing.T) {
	t.Parallel()
	mine := Codes()
	mine[0] = "MINE"
	if Codes()[0] == "MINE" {
		t.Error("a caller's change is seen by the next")
	}
}

func TestErrorf(t *testing.T) {
	t.Parallel()
	got := Errorf(NotFound, "no job %s is known", "job-1")
	if diff := cmp.Diff(&Error{Code: NotFound, Detail: "no job job-1 is known"}, got); diff != "" {
		t.Errorf("Errorf (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("NOT_FOUND: no job job-1 is known", got.Error()); diff != "" {
		t.Errorf("Error() (-want +got):\n%s", diff)
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	got := Invalid("options.region", "must be at most %d characters", 256)
	want := &Error{Code: InvalidRequest, Field: "options.region", Detail: "options.region: must be at most 256 characters"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Invalid (-want +got):\n%s", diff)
	}
	// The name of a field may come from outside: it is not a format.
	if diff := cmp.Diff("%s: is 5%d", Invalid("%s", "is %d%%d", 5).Detail); diff != "" {
		t.Errorf("Invalid (-want +got):\n%s", diff)
	}
}

// It is found in a chain, so that whoever answers can look for it.
func TestErrorIsFoundInAChain(t *testing.T) {
	t.Parallel()
	inner := Errorf(RateLimited, "slow down")
	var got *Error
	if !errors.As(fmt.Errorf("while dispatching: %w", inner), &got) || got != inner {
		t.Errorf("found %v, want %v", got, inner)
	}
}

// Its two words are always there, whatever else is left out.
func TestErrorBodyAlwaysHasErrorAndDetail(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(&Error{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"error":"","detail":""}`, string(body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}
