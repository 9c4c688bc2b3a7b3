package storetest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// manyClasses returns names of classes.
func manyClasses(n int) []string {
	classes := make([]string, n)
	for i := range classes {
		classes[i] = fmt.Sprintf("x%03d", i)
	}
	return classes
}

func testMostUrgentClass(t *testing.T, h queueHarness) {
	classes := manyClasses(fairqueue.MaxUrgent + 1)
	var waiters []fairqueue.Waiter
	for _, class := range classes {
		waiters = append(waiters, h.waiter(t, "job-"+class, class, "a"))
	}
	last, beyond := fairqueue.MaxUrgent-1, fairqueue.MaxUrgent
	waiters[last].Deadline -= 10_000
	waiters[beyond].Deadline -= 20_000
	h.enqueue(t, waiters...)
	if diff := cmp.Diff([]fairqueue.Waiter{waiters[last], waiters[beyond]}, h.offer(t, 2, classes...)); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
}

// testManyClasses asks for the class of the other tenant last.
func testManyClasses(t *testing.T, h queueHarness) {
	classes := manyClasses(50)
	for i, class := range classes {
		h.enqueue(t, h.waiter(t, "a-"+class, class, "a"))
		if i < 20 {
			h.enqueue(t, h.waiter(t, fmt.Sprintf("b-%d", i), classes[len(classes)-1], "b"))
		}
	}
	won := make(map[string]int)
	for _, w := range h.offer(t, 20, classes...) {
		won[w.Tenant]++
	}
	if diff := cmp.Diff(map[string]int{"a": 10, "b": 10}, won); diff != "" {
		t.Errorf("slots by tenant (-want +got):\n%s", diff)
	}
}
