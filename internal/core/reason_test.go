package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// traits are the properties of a reason.
type traits struct{ Incapable, Soft, Refusal bool }

var (
	plain     = traits{}
	incapable = traits{Incapable: true}
	soft      = traits{Soft: true}
	refusal   = traits{Refusal: true}
)

var wantReasons = map[Reason]traits{
	"": plain,

	"SEMANTIC_LANG_UNSUPPORTED": incapable,
	"ASR_LANG_UNSUPPORTED":      incapable,
	"NMT_PAIR_UNSUPPORTED":      incapable,
	"TTS_LANG_UNSUPPORTED":      incapable,
	"MODEL_MISSING":             incapable,
	"SERVICE_MISSING":           incapable,
	"FEATURE_MISSING":           incapable,
	"OTHER_TENANT":              incapable,
	"OTHER_REGION":              incapable,
	"OTHER_POOL":                incapable,

	"HEALTH_NOT_READY":           plain,
	"DISCONNECTED":               plain,
	"DRAINED":                    plain,
	"HELD":                       plain,
	"EJECTED":                    plain,
	"HEARTBEAT_STALE":            plain,
	"NO_CALLBACK_URL":            plain,
	"SERVICE_NOT_READY":          plain,
	"SERVICE_MARKED_UNAVAILABLE": plain,
	"ASR_SERVICE_NOT_READY":      plain,
	"SEMANTIC_SERVICE_NOT_READY": plain,
	"NMT_SERVICE_NOT_READY":      plain,
	"TTS_SERVICE_NOT_READY":      plain,
	"CPU_OVER_LIMIT":             plain,
	"GPU_OVER_LIMIT":             plain,
	"MEMORY_OVER_LIMIT":          plain,
	"ALREADY_TRIED":              plain,
	"FULL":                       plain,
	"NO_CAPACITY":                plain,
	"NODE_CHANGED":               plain,
	"SPREAD":                     soft,
	"SET_ASIDE":                  soft,
	"NOT_PREFERRED_REGION":       soft,

	"ALL_CANDIDATES_FULL_OR_FAILED": refusal,
	"SCHEDULER_DEPENDENCY_DOWN":     refusal,
	"MAX_RETRY_EXCEEDED":            plain,
	"DEADLINE_EXCEEDED":             plain,
	"NODE_LOST":                     plain,
	"ATTEMPT_TIMEOUT":               plain,
	"NODE_FAILED":                   plain,
	"MODEL_NOT_AVAILABLE":           plain,
	"CANCELLED":                     plain,
	"AUDIO_LOST":                    plain,
	"ACK_TIMEOUT":                   {},
	"DELIVERY_REFUSED":              plain,
	"DELIVERY_UNKNOWN":              plain,
	"NODE_BUSY":                     plain,
}

// declaredReasons reads the constants from the source, so that a new reason must be added to the table.
func declaredReasons(t *testing.T) []Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []Reason
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				reasons = append(reasons, Reason(text))
			}
		}
	}
	return reasons
}

func TestEveryReasonIsInTheTable(t *testing.T) {
	t.Parallel()
	got := make(map[Reason]traits)
	for _, r := range declaredReasons(t) {
		if _, twice := got[r]; twice {
			t.Errorf("two constants are called %q", r)
		}
		got[r] = traits{r.Incapable(), r.Soft(), r.Refusal()}
	}
	if diff := cmp.Diff(wantReasons, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestReasonTraitsDoNotOverlap checks that a reason is at most one of full, incapable and soft.
func TestReasonTraitsDoNotOverlap(t *testing.T) {
	t.Parallel()
	for _, r := range append(declaredReasons(t), "SOMETHING_ELSE") {
		n := 0
		for _, has := range []bool{r.Incapable(), r.Soft(), r.Refusal()} {
			if has {
				n++
			}
		}
		if n > 1 {
			t.Errorf("%s is several things at once", r)
		}
	}
}

func TestJobRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state  State
		reason Reason
		want   bool
	}{
		{StateFailed, ReasonAllFull, true},
		{StateFailed, ReasonDependencyDown, true},
		{StateFailed, ReasonMaxRetry, false},
		{StateFailed, ReasonNone, false},
		{StateRetrying, ReasonAllFull, false}, // not over yet
		{StateDone, ReasonAllFull, false},
		{StateCancelled, ReasonDependencyDown, false},
	} {
		j := Job{State: c.state, Reason: c.reason}
		if got := j.Refused(); got != c.want {
			t.Errorf("%s for %q: Refused() = %v, want %v", c.state, c.reason, got, c.want)
		}
	}
}
