package redisstore_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/storetest"
)

// TestRecordKeepsEveryField: the record of a job has every field of it. The suite compares what goes through a store, and that is only the
// request.
func TestRecordKeepsEveryField(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_600_000_000_000).UTC()
	storetest.Fields[core.Job]{
		Base: core.Job{ID: "job-1", State: core.StateDispatched, Created: at, Updated: at, Deadline: at, History: []core.Attempt{{}}},
		// No other time is before these.
		Values: map[string]any{"Created": at, "Updated": at.Add(time.Second), "Deadline": at.Add(time.Minute)},
		// The current attempt is the last one of the history, with its token.
		Except: []string{"ID", "Attempt", "Node", "Epoch", "Token"},
		Keep: func(t *testing.T, j core.Job) core.Job {
			want := j
			last := j.History[len(j.History)-1]
			j.Holder, j.Token = last.Holder, last.Token
			got, err := redisstore.RecordRoundTrip(&j)
			if err != nil {
				t.Fatal(err)
			}
			if got.Holder != last.Holder || got.Token != last.Token {
				t.Errorf("the current attempt is %+v with %q, want %+v", got.Holder, got.Token, last)
			}
			got.Holder, got.Token = want.Holder, want.Token
			return *got
		},
	}.Check(t)
}

// TestNodeDigestKeepsEveryField: a digest has every field but what is stored beside it.
func TestNodeDigestKeepsEveryField(t *testing.T) {
	t.Parallel()
	storetest.Fields[store.NodeDigest]{
		Base: store.NodeDigest{LastSeen: store.LastSeen{Node: "n"}, Epoch: 1}, Except: []string{"Node", "Age"},
		Keep: func(_ *testing.T, d store.NodeDigest) store.NodeDigest { return redisstore.DigestRoundTrip(&d) },
	}.Check(t)
}

// TestLeaseKeepsEveryField: a member of a lease set names every part of a lease; the node is that of the set.
func TestLeaseKeepsEveryField(t *testing.T) {
	t.Parallel()
	storetest.Fields[core.LeaseRef]{
		Base: core.LeaseRef{Node: "n"}, Except: []string{"Node"},
		Keep: func(_ *testing.T, l core.LeaseRef) core.LeaseRef { return redisstore.MemberRoundTrip(l) },
	}.Check(t)
}
