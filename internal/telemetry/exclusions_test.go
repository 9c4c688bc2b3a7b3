package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExclusions(t *testing.T) {
	t.Parallel()
	var e Exclusions
	now := time.Unix(1000, 0)
	if !e.Due(now) || e.Due(now.Add(examplesInterval-1)) || !e.Due(now.Add(examplesInterval)) {
		t.Error("it is not due once in an interval")
	}
	if back := now.Add(-time.Hour); !e.Due(back) || e.Due(back.Add(1)) { // the clock was set back
		t.Error("it is not due once after the clock was set back")
	}
	for _, node := range []string{"a", "b", "c", "d", "e", "f", "d"} {
		e.Add("FULL", node, now)
	}
	e.Add("DRAINED", "a", now.Add(time.Second))
	want := map[string]Examples{"FULL": {[]string{"d", "f", "e", "c", "b"}, now}, "DRAINED": {[]string{"a"}, now.Add(time.Second)}}
	if diff := cmp.Diff(want, e.All()); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
}
