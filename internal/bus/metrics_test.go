package bus_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// inboxLag returns how many messages were observed, and the sum of their lags.
func (i *instance) inboxLag() (count uint64, sum time.Duration) {
	i.h.t.Helper()
	var m dto.Metric
	if err := i.metrics.InboxLag.Write(&m); err != nil {
		i.h.t.Fatal(err)
	}
	return m.GetHistogram().GetSampleCount(), time.Duration(m.GetHistogram().GetSampleSum() * float64(time.Second)).Round(time.Millisecond)
}

func (i *instance) wantReclaimed(from string, want float64) {
	i.h.t.Helper()
	if got := testutil.ToFloat64(i.metrics.Reclaimed.WithLabelValues(from)); got != want {
		i.h.t.Errorf("%v messages were reclaimed (%s), want %v", got, from, want)
	}
}

// TestInboxLagAndReclaimedMessages: a message that is handled at once has no lag, one that is delivered again has the time since it was
// sent, and is counted as reclaimed.
func TestInboxLagAndReclaimedMessages(t *testing.T) {
	withHarness(t, func(h *harness) {
		a, b := h.startInstance("a"), h.startInstance("b")
		synctest.Wait()
		if err := h.send(a, "b", syncKind, "at once"); err != nil {
			h.t.Fatal(err)
		}
		h.wantHandled("b", "at once")
		if count, sum := b.inboxLag(); count != 1 || sum != 0 {
			h.t.Errorf("%d messages lag by %v, want one by 0", count, sum)
		}
		b.wantReclaimed(telemetry.ReclaimedOwn, 0)

		h.mu.Lock()
		h.failures = 1
		h.mu.Unlock()
		if err := h.send(a, "b", syncKind, "again"); err != nil {
			h.t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		h.wantHandled("b", "at once", "again")
		if count, sum := b.inboxLag(); count != 3 || sum < 5*time.Second || sum > 9*time.Second {
			h.t.Errorf("%d messages lag by %v, want the third by five to nine seconds", count, sum)
		}
		b.wantReclaimed(telemetry.ReclaimedOwn, 1)
		b.wantReclaimed(telemetry.ReclaimedAbandoned, 0)

		b.kill()
		if err := h.send(a, "b", syncKind, "left behind"); err != nil {
			h.t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		a.wantReclaimed(telemetry.ReclaimedAbandoned, 1)
		a.wantReclaimed(telemetry.ReclaimedOwn, 0)
	})
}
