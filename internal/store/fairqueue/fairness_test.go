package fairqueue

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestSharesFollowWeights(t *testing.T) {
	t.Parallel()
	for _, weights := range [][2]int{{1, 1}, {4, 1}, {1, 4}, {1000, 999}, {3, 2}} {
		b := newBench(t)
		b.keep("x", "a", weights[0], 500)
		b.keep("x", "b", weights[1], 5)
		b.run(1000, always("x"))
		wantAbout(t, fmt.Sprint(weights), b.count[flowKey{"x", "a"}], 1000*weights[0]/(weights[0]+weights[1]), 3)
	}
}

// TestSharesInASlowClass: beside a class that is served all the time, the shares of a class that rarely gets a slot follow the weights too.
func TestSharesInASlowClass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("y", "c", 1, 5)
	b.keep("x", "a", 4, 5)
	b.keep("x", "b", 1, 5)
	b.run(9000, func(i int) []string {
		if i%30 == 0 {
			return []string{"x"}
		}
		return []string{"y"}
	})
	wantAbout(t, "a in x", b.count[flowKey{"x", "a"}], 240, 2)
}

// TestClassesOnOneNode: tenants share a node that serves all classes by their weights, however many classes they wait in.
func TestClassesOnOneNode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 20 {
		b.keep(fmt.Sprintf("x%02d", i), "a", 1, 10)
	}
	b.keep("x00", "b", 1, 3)
	b.keep("y00", "c", 2, 3)
	classes := make([]string, 0, 21)
	for i := range 20 {
		classes = append(classes, fmt.Sprintf("x%02d", i))
	}
	b.run(4000, always(append(classes, "y00")...))
	wantAbout(t, "a in 20 classes", b.tenantCount("a"), 1000, 40)
	wantAbout(t, "b in one class", b.tenantCount("b"), 1000, 40)
	wantAbout(t, "c with weight 2", b.tenantCount("c"), 2000, 40)
}

// TestManyClassesDilute: a tenant that waits in nearly as many classes as there may be, all of which the node can serve, gets no more slots than one that
// waits in one of them. The classes are asked for in a random order.
func TestManyClassesDilute(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 255, MaxClasses - 1} {
		b := newBench(t)
		var classes []string
		for i := range n {
			classes = append(classes, fmt.Sprintf("x%03d", i))
			b.keep(classes[i], "a", 1, 2)
		}
		b.keep(classes[n/2], "b", 1, 2)
		rng := rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // the same order in every run
		b.run(3000, func(int) []string {
			rng.Shuffle(n, func(i, j int) { classes[i], classes[j] = classes[j], classes[i] })
			return classes
		})
		wantAbout(t, fmt.Sprintf("b, beside %d classes of a", n), b.tenantCount("b"), 1500, 75)
	}
}

// TestOffersOfManyClasses: with many classes a call makes fewer offers than it is asked for, and says that there are more.
func TestOffersOfManyClasses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var classes []string
	for i := range 200 {
		classes = append(classes, fmt.Sprintf("x%03d", i))
		b.enqueue(b.waiter(classes[i], "a", "i"), 1)
	}
	for want := 200; want > 0; {
		r := b.q.Offer(b.now, MaxOffers, classes)
		if len(r.Offers) != MaxCompared/len(classes) || !r.More {
			t.Fatalf("%d offers, more %v, with %d waiters", len(r.Offers), r.More, want)
		}
		want -= len(r.Offers)
	}
	if r := b.q.Offer(b.now, MaxOffers, classes); len(r.Offers) != 0 || r.More {
		t.Errorf("without waiters: %+v", r)
	}
	if r := b.q.Offer(b.now, 1, classes); r.More {
		t.Errorf("one slot: %+v", r)
	}
}

// TestChangingClasses: a tenant that has one waiter at a time, each in another class, gets no more than its share.
func TestChangingClasses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("y", "b", 1, 20)
	won := 0
	var last Waiter
	for i := range 2000 {
		b.fill()
		b.now++
		if last.ID == "" {
			last = b.waiter(fmt.Sprintf("x%03d", i%100), "a", "i")
			b.enqueue(last, 1)
		}
		if w, _ := b.serve("y", last.Class); w.Tenant == "a" {
			won++
			last = Waiter{}
		}
	}
	if won > 1050 {
		t.Errorf("it got %d of 2000 slots", won)
	}
	wantAbout(t, "slots of the other", b.tenantCount("b"), 1000, 50)
}

// TestServedElsewhere: a tenant that gets all slots of one class still gets some of another, for which others wait, and those get the most.
func TestServedElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("y", "a", 1, 20)
	b.keep("x", "a", 1, 20)
	b.keep("x", "b", 1, 20)
	b.run(3300, func(i int) []string {
		if i%11 == 0 {
			return []string{"x"}
		}
		return []string{"y"}
	})
	if got := b.count[flowKey{"x", "a"}]; got < 100 || got > 155 {
		t.Errorf("the tenant that is served elsewhere got %d of 300 slots", got)
	}
}

// TestServedElsewhereBetweenFlows: the same holds for a tenant that has few waiters in the contested class, so that its flow there begins again and again.
func TestServedElsewhereBetweenFlows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("y", "a", 1, 20)
	b.keep("x", "a", 1, 1)
	b.keep("x", "b", 1, 20)
	b.run(3300, func(i int) []string {
		if i%11 == 0 {
			return []string{"x"}
		}
		return []string{"y"}
	})
	if got := b.count[flowKey{"x", "a"}]; got < 90 || got > 155 {
		t.Errorf("the tenant that is served elsewhere got %d of 300 slots", got)
	}
}

// TestSlotsOfAnotherClass: slots for one class are not left empty because many tenants wait in another.
func TestSlotsOfAnotherClass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 200 {
		b.keep("x", fmt.Sprintf("t%d", i), 1, 1)
	}
	b.keep("y", "c", 1, 2)
	b.run(20, always("y"))
	wantAbout(t, "c", b.tenantCount("c"), 20, 0)
}

// TestReturnedOffersAreNotCharged: a tenant whose offers meet full nodes is not charged for them.
func TestReturnedOffersAreNotCharged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("x", "a", 1, 10)
	b.keep("x", "b", 1, 10)
	b.keep("y", "a", 1, 10)
	for i := 0; b.tenantCount("a")+b.tenantCount("b") < 400; i++ {
		b.fill()
		b.now++
		b.q.Beat(b.now, "i")
		w := b.q.Offer(b.now, 1, []string{"x", "y"}).Offers[0].Waiter
		if w.Tenant == "a" && i%4 == 0 || i%7 == 0 {
			if !b.q.Return(b.now, w) {
				t.Fatal("the waiter is not in the line")
			}
			continue
		}
		b.q.Dequeue(b.now, w, true)
		b.count[flowKey{w.Class, w.Tenant}]++
	}
	wantAbout(t, "a, of 400", b.tenantCount("a"), 200, 2)
}

// TestOldestOfManyTenants: of many tenants with one waiter each, those that wait longest are served first.
func TestOldestOfManyTenants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 200 {
		b.now++
		b.enqueue(b.waiter("x", fmt.Sprintf("t%03d", (i*37)%200), "i"), 1)
	}
	var last int64
	for range 200 {
		b.now++
		w, _ := b.serve("x")
		if w.Since < last {
			t.Fatalf("%s waits since %d and was served after one that waits since %d", w.Tenant, w.Since, last)
		}
		last = w.Since
	}
}

// TestNewcomerSavesNothing: a tenant that did not wait has no claim to slots of the time before.
func TestNewcomerSavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("x", "a", 1, 10)
	b.run(1000, always("x"))
	b.keep("x", "b", 1, 10)
	b.run(100, always("x"))
	wantAbout(t, "b, of 100", b.tenantCount("b"), 50, 1)
}

// TestClassThatReopens: a class that nobody waited in has no claim either.
func TestClassThatReopens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("x", "a", 1, 1)
	b.run(10, always("x"))
	b.keep("x", "a", 1, 0)
	b.serve("x")
	b.keep("y", "c", 1, 10)
	b.run(1000, always("y"))
	b.keep("x", "a", 1, 10)
	before := b.tenantCount("a")
	b.run(100, always("x", "y"))
	wantAbout(t, "a, of 100", b.tenantCount("a")-before, 50, 1)
}

// TestShareCounters: what a tenant was entitled to follows its weight, and what it got does too.
func TestShareCounters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("x", "a", 3, 10)
	b.keep("x", "b", 1, 10)
	b.run(1000, always("x"))
	for _, f := range b.q.View(b.now, ViewParams{Flows: 10}).Flows {
		want := int64(750)
		if f.Tenant == "b" {
			want = 250
		}
		wantAbout(t, f.Tenant+" granted", int(f.Granted), int(want), 2)
		wantAbout(t, f.Tenant+" entitled", int((f.Entitled+f.Accrued)/ShareScale), int(want), 1)
	}
}

// TestClassBesideABusyOne: a tenant whose requests wait in one class all the time is served in another class of the same nodes, too, when the deadline
// there is the earlier one.
func TestClassBesideABusyOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keep("x", "a", 1, 20)
	b.keep("x", "b", 1, 20)
	b.keep("z", "a", 1, 3) // on other nodes, where it is alone
	b.run(200, func(i int) []string {
		if i%3 == 0 {
			return []string{"x"}
		}
		return []string{"z"}
	})
	urgent := b.waiter("y", "a", "i")
	urgent.Deadline = b.now + 1000
	b.enqueue(urgent, 1)
	for slots := 1; ; slots++ {
		b.fill()
		b.now++
		if w, _ := b.serve("x", "y"); w.ID == urgent.ID {
			return
		}
		if slots == 20 {
			t.Fatalf("%d slots went to others, and none to the request with the earliest deadline", slots)
		}
	}
}
