package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// wantRetryable repeats every code by hand: clients depend on these names and on whether to retry.
var wantRetryable = map[Code]bool{
	"INVALID_REQUEST": false, "METHOD_NOT_ALLOWED": false, "UNSUPPORTED_MEDIA_TYPE": false, "PAYLOAD_TOO_LARGE": false,
	"UNAUTHORIZED": false, "FORBIDDEN": false, "NOT_FOUND": false, "NAME_IN_USE": true, "CONFIG_INVALID": false, "RATE_LIMITED": true, "INTERNAL": true,
	"STALE_ATTEMPT": false, "STALE_EPOCH": false, "NOT_HOLDER": false, "REQUEST_MISMATCH": false, "SESSION_ENDED": false, "MATCHES_CHANGED": false, "CANCELLED": false,
	"PREFERRED_NODE_NOT_CAPABLE": false, "NO_CAPABLE_NODE": true, "ALL_CANDIDATES_FULL_OR_FAILED": true, "CANNOT_BE_MET": true, "QUEUE_FULL": true,
	"SCHEDULER_DEPENDENCY_DOWN": true, "DEADLINE_EXCEEDED": true, "STATS_NOT_READY": true,
}

// declaredCodes returns the values of all constants of type Code, sorted.
func declaredCodes(t *testing.T) []Code {
	t.Helper()
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
	return declared
}

func TestRetryableCodes(t *testing.T) {
	t.Parallel()
	got := make(map[Code]bool)
	for _, c := range declaredCodes(t) {
		got[c] = c.Retryable()
	}
	if diff := cmp.Diff(wantRetryable, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

func TestUnknownCodeIsRetryableLikeInternal(t *testing.T) {
	t.Parallel()
	for _, c := range []Code{"", "NONSENSE", "invalid_request"} {
		if c.Retryable() != Internal.Retryable() {
			t.Errorf("%q: retryable %v, want %v", c, c.Retryable(), Internal.Retryable())
		}
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
	// The name of a field may be part of a request: it must not be used as a format.
	if diff := cmp.Diff("%s: is 5%d", Invalid("%s", "is %d%%d", 5).Detail); diff != "" {
		t.Errorf("Invalid (-want +got):\n%s", diff)
	}
}

func TestErrorsAsFindsWrappedError(t *testing.T) {
	t.Parallel()
	inner := Errorf(RateLimited, "slow down")
	var got *Error
	if !errors.As(fmt.Errorf("while dispatching: %w", inner), &got) || got != inner {
		t.Errorf("found %v, want %v", got, inner)
	}
}

// error and detail are never omitted.
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

type namedString string

func TestErrorDetailsTruncateQuotedText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1000)
	for name, e := range map[string]*Error{
		"a string":       Errorf(InvalidRequest, "%q", long),
		"a named string": Errorf(InvalidRequest, "%s", namedString(long)),
		"an error":       Errorf(InvalidRequest, "%s", errors.New(long)),
		"a field":        Invalid(long, "is invalid"),
	} {
		if len(e.Detail) > 300 || len(e.Field) > 70 || !utf8.ValidString(e.Detail) || !strings.Contains(e.Detail, "…") {
			t.Errorf("%s: %d bytes, field %d: %s", name, len(e.Detail), len(e.Field), e.Detail)
		}
	}
	if got := Quote("short"); got != "short" {
		t.Errorf("a short text became %q", got)
	}
	if got, want := Quote("x"+long), "x"+strings.Repeat("é", 31)+"…"; got != want {
		t.Errorf("cut to %q, want %q", got, want)
	}
}

// TestRetryAfterClose repeats by hand after which close codes clients reconnect, as docs/codes.md says.
func TestRetryAfterClose(t *testing.T) {
	t.Parallel()
	for code, want := range map[CloseCode]bool{
		1001: true, CloseProtocolError: false, 1005: true, 1006: true, CloseInvalidPayload: false, 1011: true, 1012: true,
		CloseBadMessage: false, CloseUnauthorized: false, CloseReplaced: false, 4499: false, CloseInternal: true, CloseOverloaded: true,
	} {
		if got := code.Retry(); got != want {
			t.Errorf("reconnect after %d: %v, want %v", code, got, want)
		}
	}
}
