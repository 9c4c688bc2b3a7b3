package stats

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// readCounter counts how snapshots are read.
type readCounter struct {
	*faultyStore
	reads, asked atomic.Int64 // all; those that ask first whether there is another one
}

func (c *readCounter) ReadValues(ctx context.Context, queries ...store.ValueQuery) ([]store.Value, error) {
	values, err := c.faultyStore.ReadValues(ctx, queries...)
	if asksForSnapshot(queries) {
		c.reads.Add(1)
		if queries[0].Known != "" {
			c.asked.Add(1)
		}
	}
	return values, err
}

// TestSnapshotsAreReadOnce: a snapshot is read when it is due, with one command, and not in between; and none is missed.
func TestSnapshotsAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &readCounter{faultyStore: newStore()}
		in := newInstance("i-1", st, "i-1")
		defer in.run()()
		time.Sleep(20 * time.Second)
		points := len(in.reader.Series(time.Time{}).Points)
		saved, reads, asked := st.saved.Load(), st.reads.Load(), st.asked.Load()
		time.Sleep(10 * time.Minute)
		saved, reads, asked = st.saved.Load()-saved, st.reads.Load()-reads, st.asked.Load()-asked
		if saved < 115 || float64(reads) > 1.5*float64(saved) || float64(asked) > 0.5*float64(saved) {
			t.Errorf("%d snapshots were read %d times, and %d times it was asked first whether there is one", saved, reads, asked)
		}
		if got := len(in.reader.Series(time.Time{}).Points) - points; int64(got) < saved-1 {
			t.Errorf("the series has %d further points of %d snapshots", got, saved)
		}
	})
}
