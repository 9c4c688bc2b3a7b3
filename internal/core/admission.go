package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AdmissionReason is why the slots of a node are limited. The names are stable: they are in the store and in responses.
type AdmissionReason string

// The reasons of an admission.
const (
	AdmissionFailing     AdmissionReason = "failing"      // its jobs fail much more often than those of other nodes
	AdmissionACKTimeouts AdmissionReason = "ack_timeouts" // it does not acknowledge its jobs
	AdmissionSilent      AdmissionReason = "silent"       // it acknowledges its jobs and sends no results
)

// AdmissionReasons lists every reason.
func AdmissionReasons() []AdmissionReason {
	return []AdmissionReason{AdmissionFailing, AdmissionACKTimeouts, AdmissionSilent}
}

// Admission says how many slots of a node may be granted although it declares more. The zero value admits all. It is decided for the whole
// cluster, survives registrations, and never ends a job: leases only shrink until they fit.
type Admission struct {
	Limited bool            // only Slots may be granted; false: all
	Slots   int             // 0: the node is ejected, it gets no new jobs
	Reason  AdmissionReason // why it is limited, or was last; empty: it never was
	Since   time.Time       // when it was decided, on the clock of the store
	// Until is when it is meant to end, on the clock of the store; zero: nothing is planned. It does not end by itself: another decision
	// ends it.
	Until time.Time
	Times int // how many times in a row the node was ejected; it may be kept while all slots are admitted
}

// ErrBadAdmission says that an admission contradicts itself.
var ErrBadAdmission = errors.New("this is no valid admission")

// Validate returns ErrBadAdmission, with the reason, for an admission that no store may keep.
func (a Admission) Validate() error {
	known := slices.Contains(AdmissionReasons(), a.Reason)
	switch {
	case a.Slots < 0 || a.Slots > MaxConcurrentJobs:
		return fmt.Errorf("%w: it has %d slots, which must be 0 to %d", ErrBadAdmission, a.Slots, MaxConcurrentJobs)
	case !a.Limited && a.Slots != 0:
		return fmt.Errorf("%w: it admits all slots and names %d", ErrBadAdmission, a.Slots)
	case a.Times < 0:
		return fmt.Errorf("%w: the node was ejected %d times", ErrBadAdmission, a.Times)
	case !known && (a.Limited || a.Reason != ""):
		return fmt.Errorf("%w: the reason is not one of %s", ErrBadAdmission, joinReasons())
	}
	return nil
}

func joinReasons() string {
	var names []string
	for _, r := range AdmissionReasons() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// Admitted returns how many of the slots that a node declares may be granted.
func (a Admission) Admitted(declared int) int {
	if a.Limited {
		return min(declared, a.Slots)
	}
	return declared
}

// Ejected reports whether no slot may be granted.
func (a Admission) Ejected() bool { return a.Limited && a.Slots == 0 }

// SameDecision reports whether b decides the same for as long, whenever it was decided.
func (a Admission) SameDecision(b Admission) bool {
	return a.Limited == b.Limited && a.Slots == b.Slots && a.Reason == b.Reason && a.Times == b.Times && a.duration() == b.duration()
}

// Equal reports whether both are the same decision, made at the same time.
func (a Admission) Equal(b Admission) bool { return a.SameDecision(b) && a.Since.Equal(b.Since) }

// duration returns how long it is meant to last; 0: nothing is planned.
func (a Admission) duration() time.Duration {
	if a.Until.IsZero() {
		return 0
	}
	return a.Until.Sub(a.Since)
}

// Remaining returns how much longer it is meant to last, at a time of the store's clock; 0 if the time has passed or nothing is planned.
func (a Admission) Remaining(now time.Time) time.Duration {
	if a.Until.IsZero() {
		return 0
	}
	return max(0, a.Until.Sub(now))
}
