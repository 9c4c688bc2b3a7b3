package waiting

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

func countOf(granted int64, entitled float64) shareCount {
	return shareCount{granted, int64(entitled * fairqueue.ShareScale)}
}

// TestShareBeginsAgain: what was counted before the queue has forgotten a tenant does not count.
func TestShareBeginsAgain(t *testing.T) {
	t.Parallel()
	log, key := newShareLog(), core.TenantID("acme")
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	got := []Share{log.shareOf(at(0), sharer{tenant: key}, countOf(7, 5))}
	log.record(at(0), map[sharer]shareCount{{tenant: key}: countOf(100, 90)})
	got = append(got, log.shareOf(at(3), sharer{tenant: key}, countOf(104, 93)))
	log.record(at(3), map[sharer]shareCount{{tenant: key}: countOf(104, 93)}) // too early
	log.record(at(10), map[sharer]shareCount{{tenant: key}: countOf(110, 95)})
	log.record(at(20), map[sharer]shareCount{{tenant: key}: countOf(4, 2)}) // it has begun again
	got = append(got, log.shareOf(at(21), sharer{tenant: key}, countOf(5, 2.5)), log.shareOf(at(75), sharer{tenant: key}, countOf(6, 3)))
	for s := 30; s < 200; s += 5 {
		log.record(at(s), map[sharer]shareCount{{tenant: "beta"}: countOf(1, 1)})
	}
	got = append(got, log.shareOf(at(200), sharer{tenant: key}, countOf(9, 9)))
	log.record(at(210), map[sharer]shareCount{{tenant: key}: countOf(50, 40)})
	got = append(got, log.shareOf(at(211), sharer{tenant: key}, countOf(51, 39.5))) // the estimate has become less
	want := []Share{
		{Granted: 7, Entitled: 5}, {Granted: 4, Entitled: 3, Window: 3 * time.Second},
		{Granted: 15, Entitled: 7.5, Window: 21 * time.Second},
		{Granted: 2, Entitled: 1, Window: 55 * time.Second}, {Granted: 9, Entitled: 9},
		{Granted: 1, Window: time.Second},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("shares (-want +got)\n%s", diff)
	}
	for i := range 3000 {
		log.record(at(1000), map[sharer]shareCount{{tenant: core.TenantID(fmt.Sprint(i))}: countOf(1, 1)})
	}
	if n := len(log.tenants); n > 1000 {
		t.Errorf("%d tenants are remembered", n)
	}
}
