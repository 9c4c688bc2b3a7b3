package fleet

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const believed = time.Duration(validServiceTimes * initialServiceTime * float64(time.Second))

func fleetWithNode(t *testing.T, maxJobs int) (*Fleet, *Node) {
	t.Helper()
	f := agedFleet()
	f.Update(status(declared("a", slots(maxJobs))))
	return f, f.Node("a")
}

func TestUtilizationIsTheLastObservation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		inFlight, limit int
		want            float64
	}{
		{"idle", 0, 4, 0},
		{"part", 3, 4, 0.75},
		{"full", 4, 4, 1},
		{"over, after it lowered its maximum", 6, 4, 1.5},
		{"no slots at all", 0, 0, 1},
		{"a great many", 10_000, 10_000, 1},
		{"more than can be noted", 1 << 20, 10_000, 6.5535},
		{"less than nothing", -3, 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, n := fleetWithNode(t, c.limit)
			const at = Instant(90 * time.Minute) // whole milliseconds, as an observation has them
			f.Observe(n, c.inFlight, c.limit, at)
			if got := f.Utilization(n, at); math.Abs(got-c.want) > 1e-3 {
				t.Errorf("share %v, want %v", got, c.want)
			}
		})
	}
}

// TestUtilizationUsesTheDeclaredMaximum checks that the current maximum counts, not that of the observation.
func TestUtilizationUsesTheDeclaredMaximum(t *testing.T) {
	t.Parallel()
	f, n := fleetWithNode(t, 4)
	now := f.Now()
	f.Observe(n, 4, 4, now)
	f.Node("a").setDeclared(successor(n.Declared(), slots(8)))
	if got := f.Utilization(n, now); got != 0.5 {
		t.Errorf("share %v, want 0.5", got)
	}
}

func TestObservationIsValidForAFewServiceTimes(t *testing.T) {
	t.Parallel()
	const at = Instant(90 * time.Minute)
	for _, c := range []struct {
		name  string
		age   time.Duration
		known bool
	}{
		{"fresh", 0, true},
		{"made after the question", -time.Second, true},
		{"a little old", believed / 2, true},
		{"just good enough", believed, true},
		{"too old", believed + time.Millisecond, false},
		{"ancient", time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, n := fleetWithNode(t, 4)
			f.Observe(n, 3, 4, at)
			got, known := f.InFlight(n, at+Instant(c.age))
			if known != c.known || known && got != 3 {
				t.Errorf("in flight %d (known: %v), want 3 (known: %v)", got, known, c.known)
			}
		})
	}
}

func TestSlowJobsKeepObservationsValidForLonger(t *testing.T) {
	t.Parallel()
	f, n := fleetWithNode(t, 4)
	at := f.Now()
	f.Observe(n, 3, 4, at)
	later := at + Instant(2*believed)
	if _, known := f.InFlight(n, later); known {
		t.Fatal("believed although jobs are not known to be slow")
	}
	for range 1000 {
		f.ObserveServiceTime(10 * time.Second)
	}
	if _, known := f.InFlight(n, later); !known {
		t.Error("not believed although jobs take 10 s")
	}
	for range 1000 {
		f.ObserveServiceTime(100 * time.Millisecond)
	}
	if _, known := f.InFlight(n, at+Instant(time.Second)); known {
		t.Error("still believed after ten service times")
	}
}

func TestNodeWithoutObservationIsUnknown(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	if got, known := f.InFlight(newNode(status(declared("a"))), f.Now()); known {
		t.Errorf("in flight %d of a node that was never seen", got)
	}
}

// TestObservationOfTheFirstInstantCounts checks that an observation in the first millisecond does not count as none.
func TestObservationOfTheFirstInstantCounts(t *testing.T) {
	t.Parallel()
	f, n := fleetWithNode(t, 4)
	f.Observe(n, 3, 4, 0)
	if got, known := f.InFlight(n, 0); !known || got != 3 {
		t.Errorf("in flight %d (known: %v), want 3", got, known)
	}
}

// TestReservationsUnderWayCount checks that a slot counts as taken while it is being reserved, also on a node without a valid
// observation, which otherwise is never full.
func TestReservationsUnderWayCount(t *testing.T) {
	t.Parallel()
	f, n := fleetWithNode(t, 4)
	now := f.Now()
	f.Observe(n, 2, 4, now)
	unknown := now + Instant(believed) + Instant(time.Millisecond)
	for i, want := range []float64{0.5, 0.75, 1, 1.25} {
		if got := f.Utilization(n, now); got != want {
			t.Errorf("share %v with %d reservations under way, want %v", got, i, want)
		}
		if got := f.Utilization(n, unknown); i == 3 && got != 0.75 || got >= 1 {
			t.Errorf("share %v without an observation and with %d reservations under way", got, i)
		}
		n.BeginJob()
	}
	if got := f.Utilization(n, unknown); got != 1 {
		t.Errorf("share %v without an observation and with every slot being reserved, want 1", got)
	}
	for range 4 {
		n.EndJob()
	}
	if got := f.Utilization(n, now); got != 0.5 {
		t.Errorf("share %v after every reservation was answered, want 0.5", got)
	}
}

// TestOwnJobsAreCounted checks that the jobs of this instance are told apart from others in what the ledger returns: their end is seen at
// once, the others count for as long as the observation is valid.
func TestOwnJobsAreCounted(t *testing.T) {
	t.Parallel()
	f, n := fleetWithNode(t, 4)
	now := f.Now()
	later := now + Instant(believed) + Instant(time.Millisecond)
	want := func(when string, at Instant, share float64) {
		t.Helper()
		if got := f.Utilization(n, at); got != share {
			t.Errorf("%s: share %v, want %v", when, got, share)
		}
	}
	n.BeginJob()
	f.ObserveFree(n, 1, now) // of the three jobs two are of others
	want("one job of its own and two others", now, 0.75)
	want("the same, when the others may have ended", later, 0.25)
	n.EndJob()
	want("two others", now, 0.5)
	want("nothing is known of others", later, 0)
	n.BeginJob()
	n.BeginJob()
	f.Observe(n, 1, 4, now) // an answer from before the other reservation arrived at the ledger
	want("a reservation that the answer does not count", now, 0.5)
	n.EndJob()
	n.EndJob()
	want("idle", now, 0)
}

// TestObservationsAge checks that what was seen of the jobs of others turns into the mean by and by: they end and begin unseen.
func TestObservationsAge(t *testing.T) {
	t.Parallel()
	f, n := fleetWithNode(t, 16)
	at := f.Now()
	for range 2000 {
		f.Observe(n, 8, 16, at)
	}
	f.Observe(n, 0, 16, at)
	mean := math.Float64frombits(f.meanUtilization.Load()) * 16 // a little less than 8
	for quarter, want := range []float64{0, 2, 4, 6, 8, 8} {
		now := at + Instant(believed)*Instant(quarter)/4
		if got := f.Utilization(n, now) * 16; got != want || math.Abs(mean-8) > 0.5 {
			t.Errorf("after %d quarters of its validity %v jobs, want %v of a mean of %v", quarter, got, want, mean)
		}
	}
}

// TestUnknownNodeOfAnIdleFleetIsIdle checks that of two idle nodes of a fleet with little work the one of which nothing is known is not
// behind: it would be chosen less often only because it was not chosen before.
func TestUnknownNodeOfAnIdleFleetIsIdle(t *testing.T) {
	t.Parallel()
	f, seen := fleetWithNode(t, 4)
	stranger, now := newNode(status(declared("b", slots(4)))), f.Now()
	for i := range 1000 {
		f.Observe(seen, i%10/9, 4, now) // each tenth time one of four slots is taken
	}
	f.Observe(seen, 0, 4, now)
	if a, b := f.Utilization(seen, now), f.Utilization(stranger, now); a != b {
		t.Errorf("shares %v of the idle node and %v of the unknown one", a, b)
	}
}

func TestUnknownUtilizationIsTheMean(t *testing.T) {
	t.Parallel()
	f, seen := fleetWithNode(t, 4)
	stranger := newNode(status(declared("b")))
	now := f.Now()
	if got := f.Utilization(stranger, now); got != 0 {
		t.Errorf("share %v before anything was seen, want 0", got)
	}
	for range 1000 {
		f.Observe(seen, 2, 4, now)
	}
	if got := f.Utilization(stranger, now); math.Abs(got-0.5) > 1e-3 {
		t.Errorf("share %v, want the average of 0.5", got)
	}
	// Too old is as good as never seen.
	f.Observe(seen, 4, 4, now)
	if got := f.Utilization(seen, now+Instant(believed)+Instant(time.Millisecond)); math.Abs(got-0.5) > 1e-2 {
		t.Errorf("share %v of an old answer, want the average of about 0.5", got)
	}
	// A node without slots does not change the mean.
	before := f.Utilization(stranger, now)
	f.Observe(seen, 0, 0, now)
	if got := f.Utilization(stranger, now); got != before {
		t.Errorf("the average moved from %v to %v", before, got)
	}
}

// TestUnknownNodeIsNeverFull checks that a node without an observation never counts as full: it would never be tried, and
// stay unknown.
func TestUnknownNodeIsNeverFull(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := agedFleet()
		f.Update(status(declared("a")))
		seen, stranger, now := f.Node("a"), newNode(status(declared("b"))), f.Now()
		for _, inFlight := range rapid.SliceOfN(rapid.IntRange(0, 100), 0, 500).Draw(t, "answers") {
			f.Observe(seen, inFlight, 4, now)
		}
		if got := f.Utilization(stranger, now); got < 0 || got >= 1 {
			t.Fatalf("share %v of an unknown node, want at least 0 and less than 1", got)
		}
	})
}

// TestPackObservation checks that the count and the time in one word do not overflow into each other.
func TestPackObservation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inFlight := rapid.IntRange(-10, 1<<17).Draw(t, "in flight")
		at := Instant(rapid.Int64Range(0, int64(100*365*24*time.Hour)).Draw(t, "at"))
		f := agedFleet()
		n := newNode(status(declared("a")))
		f.Observe(n, inFlight, 4, at)
		got, known := f.InFlight(n, at)
		if want := min(max(inFlight, 0), 1<<16-1); !known || got != want {
			t.Fatalf("in flight %d (known: %v), want %d", got, known, want)
		}
		if _, known := f.InFlight(n, at+Instant(believed)+Instant(time.Millisecond)); known {
			t.Fatal("believed beyond its time")
		}
	})
}
