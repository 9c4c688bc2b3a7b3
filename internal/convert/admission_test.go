package convert_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestAdmissionReasonsAreDescribed: the API names every reason.
func TestAdmissionReasonsAreDescribed(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[wire.Admission]().FieldByName("Reason")
	var want []string
	for _, r := range core.AdmissionReasons() {
		want = append(want, string(r))
	}
	if diff := cmp.Diff(want, strings.Split(field.Tag.Get("enum"), ",")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestAdmissionView: the times of an admission are on the clock of the store, and are shown on that of this machine.
func TestAdmissionView(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storeTime := time.UnixMilli(1_500_000_000_000) // years behind
		since, until := storeTime.Add(-5*time.Second), storeTime.Add(25*time.Second)
		local := time.Now()
		ms := func(d time.Duration) int64 { return local.Add(d).UnixMilli() }
		for _, c := range []struct {
			name      string
			admission core.Admission
			unknown   bool // the time of the store
			want      *wire.Admission
			detail    string
		}{
			{name: "all"},
			{name: "all, with a memory", admission: core.Admission{Reason: core.AdmissionFailing, Since: since, Times: 2}},
			{
				name: "ejected", admission: core.Admission{Limited: true, Reason: core.AdmissionFailing, Since: since, Until: until, Times: 3},
				want:   &wire.Admission{Reason: "failing", SinceMS: ms(-5 * time.Second), UntilMS: ms(25 * time.Second), Times: 3},
				detail: "ejected (failing), 25s left",
			},
			{
				name: "limited", admission: core.Admission{Limited: true, Slots: 1, Reason: core.AdmissionSilent, Since: since, Until: until, Times: 1},
				want:   &wire.Admission{Slots: 1, Reason: "silent", SinceMS: ms(-5 * time.Second), UntilMS: ms(25 * time.Second), Times: 1},
				detail: "limited to 1 of 4 slots (silent), 25s left",
			},
			{
				name: "overdue", admission: core.Admission{Limited: true, Reason: core.AdmissionACKTimeouts, Since: since.Add(-time.Minute), Until: since, Times: 1},
				want:   &wire.Admission{Reason: "ack_timeouts", SinceMS: ms(-65 * time.Second), UntilMS: ms(-5 * time.Second), Times: 1},
				detail: "ejected (ack_timeouts)",
			},
			{
				name: "without an end", admission: core.Admission{Limited: true, Reason: core.AdmissionFailing, Since: since, Times: 1},
				want: &wire.Admission{Reason: "failing", SinceMS: ms(-5 * time.Second), Times: 1}, detail: "ejected (failing)",
			},
			{
				name: "the clock of the store is unknown", unknown: true,
				admission: core.Admission{Limited: true, Reason: core.AdmissionFailing, Since: since, Until: until, Times: 1},
				want:      &wire.Admission{Reason: "failing", Times: 1}, detail: "ejected (failing)",
			},
			{
				name: "a limit above the slots", admission: core.Admission{Limited: true, Slots: 8, Reason: core.AdmissionFailing, Since: since, Times: 1},
				want: &wire.Admission{Slots: 4, Reason: "failing", SinceMS: ms(-5 * time.Second), Times: 1},
			},
		} {
			at := storeTime
			if c.unknown {
				at = time.Time{}
			}
			n := &core.Node{ID: "n", Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4}, Admission: c.admission}
			if diff := cmp.Diff(c.want, convert.Node(store.NodeStatus{Node: n, At: at}, time.Minute, 0).Admission); diff != "" {
				t.Errorf("%s (-want +got)\n%s", c.name, diff)
			}
			if got := convert.AdmissionDetail(n, at); got != c.detail {
				t.Errorf("%s: %q, want %q", c.name, got, c.detail)
			}
		}
	})
}
