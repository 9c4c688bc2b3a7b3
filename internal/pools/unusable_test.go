package pools_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// unusable are settings that cannot be used.
var unusable = map[string]string{
	"of a newer version":   `{"pools":[{"id":"x"}],"later":1}`,
	"a pool of a newer":    `{"pools":[{"id":"x","later":1}]}`,
	"a negative number":    `{"buckets":-1}`,
	"a huge number":        `{"buckets":4611686018427387904}`,
	"no integer":           `{"buckets":1e400}`,
	"two pools of one id":  `{"pools":[{"id":"x"},{"id":"x"}]}`,
	"an unknown pool":      `{"buckets":1,"tenant_overrides":{"acme":"gold"}}`,
	"an unknown scope":     `{"buckets":1,"scope":"all"}`,
	"a list":               `[]`,
	"null":                 `null`,
	"nothing":              ``,
	"no JSON":              "\x00",
	"two divisions":        `{"buckets":1}{"buckets":2}`,
	"no end":               `{"buckets":1`,
	"services that are no": `{"pools":[{"id":"x","required_services":["@"]}]}`,
}

// TestUnusablePoolsWhileRunning: an instance that cannot use the pools in force keeps those before, says so, and adopts the next ones.
func TestUnusablePoolsWhileRunning(t *testing.T) {
	for name, body := range unusable {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := memstore.New(timing)
				a := start(t, shared, "x")
				if _, err := pools.PublishBody(t.Context(), shared, body); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					time.Sleep(maxPoll)
					if s := a.State(); !strings.Contains(s.Problem, "generation 2") || s.Generation != 2 || !cmp.Equal(s.Division, file("x")) || !cmp.Equal(a.fleet.Division(), file("x").Prepared(), cmpopts.IgnoreFields(core.Pools{}, "Table")) {
						t.Errorf("%+v, want the pools before and a problem", s)
					}
				}
				a.Publish(t.Context(), file("y"))
				want(t, 3, []core.PoolID{"y"}, a)
			})
		})
	}
}

// TestUnusablePoolsAtStart: an instance that cannot use the pools in force does not start, says what to do, and does not replace them, also if
// its own were never in force.
func TestUnusablePoolsAtStart(t *testing.T) {
	for name, body := range unusable {
		for _, own := range [][]core.PoolID{nil, {"x"}} {
			shared := memstore.New(timing)
			if _, err := pools.PublishBody(t.Context(), shared, body); err != nil {
				t.Fatal(err)
			}
			i := newInstance(shared)
			if err := i.Start(t.Context(), file(own...)); err == nil || !strings.Contains(err.Error(), "generation 1") || !strings.Contains(err.Error(), "lingua config reload --publish-pools") {
				t.Errorf("%s, with a file of %v: %v", name, own, err)
			}
			if s, err := pools.Stored(t.Context(), shared); err != nil || s.Generation != 1 || string(s.Body) != body {
				t.Errorf("%s: %+v, %v, want what was there", name, s, err)
			}
		}
	}
}

// FuzzDecode: no setting crashes an instance. One that is accepted divides a fleet, and is the same after it was written again.
func FuzzDecode(f *testing.F) {
	for _, body := range unusable {
		f.Add([]byte(body))
	}
	f.Add([]byte(`{"buckets":3,"seed":18446744073709551615,"affinity_seconds":-1}`))
	f.Add([]byte(`{"pools":[{"id":"gold","name":"Gold","required_services":["asr@>=2,<3","nmt"]},{"id":"silver"}],"tenant_overrides":{"acme":"gold"},"scope":"all_required","strict":true}`))
	n := &core.Node{ID: "n", Declaration: core.Declaration{Capability: core.Capability{Services: []core.Service{{ID: "asr", Version: "2.1", Status: core.ServiceReady}}}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		division, err := pools.Decode(body)
		if err != nil {
			return
		}
		again, err := pools.Decode(pools.Encode(division))
		if err != nil || !cmp.Equal(division.IDs(), again.IDs()) {
			t.Fatalf("%s is not %s: %v", pools.Encode(again), body, err)
		}
		i := newInstance(nil)
		i.fleet.SetPools(division)
		division.Assign(n)
		for _, id := range division.IDs() {
			division.Eligible(id, &core.Options{RequiredServices: []string{"asr@>=2", "nmt"}})
			division.Assign(&core.Node{ID: "pinned", Declaration: core.Declaration{Pool: id}})
		}
	})
}
