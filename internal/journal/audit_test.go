package journal_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// takeLines returns what was written since the last call, a line for each entry.
func takeLines(l *fakeLog[store.AuditEntry]) (lines []string) {
	for _, e := range l.take() {
		lines = append(lines, fmt.Sprintf("%s %s %s %d", e.Action, e.Reason, e.Address, e.Suppressed))
	}
	return lines
}

func droppedCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dropped"}, []string{"log"})
}

// fixture is a recorder that writes to a log.
type fixture struct {
	*journal.Audit
	log     *fakeLog[store.AuditEntry]
	dropped *prometheus.CounterVec
	stop    func()
}

// run runs a test with a recorder, on a fake clock.
func run(t *testing.T, fn func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{log: &fakeLog[store.AuditEntry]{name: store.AuditLog}, dropped: droppedCounter()}
		var err error
		f.Audit, err = journal.NewAudit(journal.AuditOptions{Instance: "i-1", Dropped: f.dropped, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx, f.log) })
		f.stop = func() {
			cancel()
			running.Wait()
		}
		defer f.stop()
		fn(t, f)
	})
}

// deny records denials of an address.
func (f *fixture) deny(n int, address string) {
	for range n {
		f.Record(store.AuditEntry{Action: "GET /v1/nodes", Outcome: store.AuditDenied, Reason: "unknown", Address: address})
	}
}

func TestEntriesHaveTimeAndInstance(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		began := time.Now()
		f.Record(store.AuditEntry{Action: "node.drain", Outcome: store.AuditOK})
		synctest.Wait()
		if e := f.log.entries[0]; !e.At.Equal(began) || e.Instance != "i-1" || e.Action != "node.drain" {
			t.Errorf("%+v", e)
		}
	})
}

// TestStoreOutage: entries wait for the store, and those that never fit are counted.
func TestStoreOutage(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		f.log.setDown(true)
		const n = 10_000
		for range n {
			f.Record(store.AuditEntry{Action: "node.drain", Outcome: store.AuditOK})
		}
		time.Sleep(time.Minute)
		f.log.setDown(false)
		time.Sleep(10 * time.Second)
		written, dropped := len(takeLines(f.log)), int(testutil.ToFloat64(f.dropped.WithLabelValues("store")))
		if written < 4096 || written+dropped != n {
			t.Errorf("%d were written and %d dropped, of %d", written, dropped, n)
		}
	})
}

// TestDenialsAreLimitedPerAddress: an address has a burst and then a rate, its next entry says how many were left out, and other
// addresses are not affected.
func TestDenialsAreLimitedPerAddress(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		f.deny(1000, "192.0.2.1")
		f.deny(1, "192.0.2.2")
		synctest.Wait()
		got := takeLines(f.log)
		if len(got) != 21 || got[20] != "GET /v1/nodes unknown 192.0.2.2 0" {
			t.Errorf("%d entries, the last %q; want 20 and the other address", len(got), got[len(got)-1])
		}
		time.Sleep(time.Second)
		f.deny(100, "192.0.2.1")
		synctest.Wait()
		want := []string{"GET /v1/nodes unknown 192.0.2.1 980"}
		for range 4 {
			want = append(want, "GET /v1/nodes unknown 192.0.2.1 0")
		}
		if diff := cmp.Diff(want, takeLines(f.log)); diff != "" {
			t.Errorf("a second later (-want +got):\n%s", diff)
		}
		f.Record(store.AuditEntry{Action: "node.drain", Outcome: store.AuditOK, Address: "192.0.2.1"})
		for range 30 {
			f.Record(store.AuditEntry{Action: "job.cancel", Outcome: store.AuditFailed, Key: "shop", Address: "192.0.2.1"})
		}
		f.Record(store.AuditEntry{Action: "job.cancel", Outcome: store.AuditFailed, Key: "other", Address: "192.0.2.1"})
		synctest.Wait()
		if got := takeLines(f.log); len(got) != 1+20+1 || got[0] != "node.drain  192.0.2.1 0" {
			t.Errorf("%q: want a change, which is never left out, 20 failures of one key and one of another", got)
		}
	})
}

// TestSuppressedDenialsAreNotLost: the number of suppressed denials is recorded when the address has stopped, and when the instance
// stops.
func TestSuppressedDenialsAreNotLost(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		f.deny(30, "192.0.2.1")
		synctest.Wait()
		takeLines(f.log)
		time.Sleep(30 * time.Second)
		if diff := cmp.Diff([]string{"denials suppressed 192.0.2.1 10"}, takeLines(f.log)); diff != "" {
			t.Errorf("afterwards (-want +got):\n%s", diff)
		}
		f.deny(25, "192.0.2.1")
		f.deny(25, "")
		synctest.Wait()
		takeLines(f.log)
		f.stop()
		if diff := cmp.Diff([]string{"denials suppressed 192.0.2.1 5", "denials suppressed  5"}, takeLines(f.log)); diff != "" {
			t.Errorf("at the end (-want +got):\n%s", diff)
		}
	})
}

// TestManyAddresses: all addresses together have a limit, and one entry says how many were left out. Addresses of one IPv6 network count
// as one.
func TestManyAddresses(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		deny := func(from, n int) (recorded int) {
			for i := from; i < from+n; i++ {
				f.deny(1, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
				synctest.Wait()
			}
			return len(takeLines(f.log))
		}
		if n := deny(0, 6000); n != 400 {
			t.Errorf("%d of 6000 addresses were recorded, want the 400 of all together", n)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"denials suppressed  5600"}, takeLines(f.log)); diff != "" {
			t.Errorf("afterwards (-want +got):\n%s", diff)
		}
		if n := deny(8192, 100); n != 100 {
			t.Errorf("%d of 100 addresses were recorded after the others had stopped", n)
		}
		for i := range 100 {
			f.deny(1, fmt.Sprintf("2001:db8::%x", i+1))
		}
		synctest.Wait()
		if n := len(takeLines(f.log)); n != 20 {
			t.Errorf("%d denials of one IPv6 network were recorded, want 20", n)
		}
	})
}

func TestNilAudit(t *testing.T) {
	t.Parallel()
	var r *journal.Audit
	r.Record(store.AuditEntry{Outcome: store.AuditDenied})
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::1", "[fe80::1%eth0]:80": "fe80::1", "@": "", "": "",
	} {
		if got := journal.AddressOf(remote); got != want {
			t.Errorf("%q: %q, want %q", remote, got, want)
		}
	}
}
