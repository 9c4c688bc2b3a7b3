package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// marked returns which of the services are marked; nil if the node is not in view.
func marked(f *Fleet, id core.NodeID, services ...string) map[string]bool {
	n := f.Node(id)
	if n == nil {
		return nil
	}
	found := make(map[string]bool)
	for _, service := range services {
		if n.Marked(service, f.Now()) {
			found[service] = true
		}
	}
	return found
}

func TestMarksExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		f.Update(status(declared("a")))
		f.Update(status(declared("b")))
		mark := func(service string, d time.Duration) { f.Mark(store.Mark{Node: "a", Service: service, For: d}) }
		check := func(when string, want map[string]bool) {
			t.Helper()
			if diff := cmp.Diff(want, marked(f, "a", "asr", "nmt", "tts")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
			if got := marked(f, "b", "asr", "nmt", "tts"); len(got) != 0 {
				t.Errorf("%s: marks of another node: %v", when, got)
			}
		}

		check("at first", map[string]bool{})
		mark("asr", 60*time.Second)
		time.Sleep(10 * time.Second)
		mark("nmt", 20*time.Second)
		check("marked", map[string]bool{"asr": true, "nmt": true})
		time.Sleep(20*time.Second - 1)
		check("just before the second ends", map[string]bool{"asr": true, "nmt": true})
		time.Sleep(time.Nanosecond)
		check("as the second ends", map[string]bool{"asr": true})
		mark("tts", 10*time.Second)
		if got := len(*f.Node("a").marks.Load()); got != 2 {
			t.Errorf("%d marks are kept, want the 2 that hold", got)
		}
		mark("asr", 60*time.Second) // found missing again: the time starts over
		time.Sleep(60*time.Second - 1)
		check("just before the renewed one ends", map[string]bool{"asr": true})
		time.Sleep(time.Nanosecond)
		check("at last", map[string]bool{})
	})
}

// TestMarksSurviveAChangeOfTheDeclaration checks that marks do not depend on the declaration.
func TestMarksSurviveAChangeOfTheDeclaration(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	now := declared("a")
	f.Update(status(now))
	f.Mark(store.Mark{Node: "a", Service: "asr", For: time.Minute})
	f.Update(status(successor(now, speaks("en", "zh"), health(core.HealthDegraded))))
	if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f, "a", "asr")); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}
