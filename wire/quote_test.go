package wire_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lingua-scheduler/lingua/wire"
)

type named string

func TestErrorTextsQuoteLittle(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1000)
	for name, e := range map[string]*wire.Error{
		"a string":       wire.Errorf(wire.InvalidRequest, "%q", long),
		"a named string": wire.Errorf(wire.InvalidRequest, "%s", named(long)),
		"an error":       wire.Errorf(wire.InvalidRequest, "%s", errors.New(long)),
		"a field":        wire.Invalid(long, "is wrong"),
	} {
		if len(e.Detail) > 300 || len(e.Field) > 70 || !utf8.ValidString(e.Detail) || !strings.Contains(e.Detail, "…") {
			t.Errorf("%s: %d bytes, field %d: %s", name, len(e.Detail), len(e.Field), e.Detail)
		}
	}
	if got := wire.Quote("short"); got != "short" {
		t.Errorf("a short one became %q", got)
	}
	if got, want := wire.Quote("x"+long), "x"+strings.Repeat("é", 31)+"…"; got != want {
		t.Errorf("cut to %q, want %q", got, want)
	}
}
