package core

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestAdmittedSlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		declared  int
		admission Admission
		want      int
		ejected   bool
	}{
		{4, Admission{}, 4, false},
		{4, Admission{Times: 3, Reason: AdmissionFailing}, 4, false}, // only remembered
		{4, Admission{Limited: true}, 0, true},
		{4, Admission{Limited: true, Slots: 1}, 1, false},
		{4, Admission{Limited: true, Slots: 4}, 4, false},
		{4, Admission{Limited: true, Slots: 9}, 4, false}, // the node has lowered its maximum since
		{0, Admission{}, 0, false},
		{0, Admission{Limited: true}, 0, false}, // it declares no slots: nothing is withheld
		{-1, Admission{}, 0, false},
		{-1, Admission{Limited: true, Slots: 2}, 0, false},
	} {
		t.Run(fmt.Sprintf("%d with %+v", c.declared, c.admission), func(t *testing.T) {
			t.Parallel()
			n := Node{Declaration: Declaration{MaxJobs: c.declared}, Admission: c.admission}
			if got := n.Slots(); got != c.want {
				t.Errorf("%d slots, want %d", got, c.want)
			}
			if got := n.Ejected(); got != c.ejected {
				t.Errorf("ejected %v, want %v", got, c.ejected)
			}
		})
	}
}

func TestAdmissionValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		admission Admission
		valid     bool
	}{
		{Admission{}, true},
		{Admission{Times: 2, Reason: AdmissionSilent}, true},
		{Admission{Limited: true, Reason: AdmissionFailing, Times: 1}, true},
		{Admission{Limited: true, Reason: AdmissionACKTimeouts, Slots: MaxConcurrentJobs}, true},
		{Admission{Limited: true, Reason: AdmissionFailing, Slots: MaxConcurrentJobs + 1}, false},
		{Admission{Limited: true, Reason: AdmissionFailing, Slots: -1}, false},
		{Admission{Slots: 1}, false},
		{Admission{Limited: true, Reason: AdmissionFailing, Times: -1}, false},
		{Admission{Limited: true}, false},
		{Admission{Limited: true, Reason: "no such reason"}, false},
		{Admission{Reason: "no such reason"}, false},
	} {
		if err := c.admission.Validate(); (err == nil) != c.valid || err != nil && !errors.Is(err, ErrBadAdmission) {
			t.Errorf("%+v: %v, want valid %v", c.admission, err, c.valid)
		}
	}
	for _, r := range AdmissionReasons() {
		if err := (Admission{Limited: true, Reason: r}).Validate(); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
}

func TestAdmissionEqual(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	some := Admission{Limited: true, Slots: 1, Reason: AdmissionFailing, Since: at, Until: at.Add(time.Minute), Times: 2}
	for name, c := range map[string]struct {
		change    func(*Admission)
		decision  bool
		identical bool
	}{
		"nothing":                   {func(*Admission) {}, true, true},
		"the location of the times": {func(a *Admission) { a.Since, a.Until = a.Since.UTC(), a.Until.In(time.FixedZone("x", 3600)) }, true, true},
		"a later time":              {func(a *Admission) { a.Since, a.Until = a.Since.Add(time.Second), a.Until.Add(time.Second) }, true, false},
		"the limit":                 {func(a *Admission) { a.Slots = 2 }, false, false},
		"no limit":                  {func(a *Admission) { a.Limited = false }, false, false},
		"the reason":                {func(a *Admission) { a.Reason = AdmissionSilent }, false, false},
		"the times":                 {func(a *Admission) { a.Times++ }, false, false},
		"the duration":              {func(a *Admission) { a.Until = a.Until.Add(1) }, false, false},
		"no end":                    {func(a *Admission) { a.Until = time.Time{} }, false, false},
	} {
		other := some
		c.change(&other)
		if got := some.SameDecision(other); got != c.decision {
			t.Errorf("%s: SameDecision %v, want %v", name, got, c.decision)
		}
		if got := some.Equal(other); got != c.identical {
			t.Errorf("%s: Equal %v, want %v", name, got, c.identical)
		}
	}
}

func TestAdmissionRemaining(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	limit := Admission{Limited: true, Since: at, Until: at.Add(time.Minute)}
	for _, c := range []struct {
		admission Admission
		now       time.Time
		want      time.Duration
	}{
		{limit, at, time.Minute},
		{limit, at.Add(35 * time.Second), 25 * time.Second},
		{limit, at.Add(time.Minute), 0},
		{limit, at.Add(time.Hour), 0},
		{Admission{Limited: true, Since: at}, at, 0},
		{Admission{}, at, 0},
	} {
		if got := c.admission.Remaining(c.now); got != c.want {
			t.Errorf("%v after %v: %v, want %v", c.now.Sub(at), c.admission.Until, got, c.want)
		}
	}
}
