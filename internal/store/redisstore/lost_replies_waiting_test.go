//go:build !race

package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

func (x *subject) pool() core.PoolID { return core.PoolID(x.name) }

// waiter is a waiter whose times are equal for all subjects, and long from now.
func (x *subject) waiter(n int) fairqueue.Waiter {
	return fairqueue.Waiter{ID: fmt.Sprintf("job-%d", n), Class: "x", Tenant: "a", Instance: "i-1", Since: 4_000_000_000_000, Deadline: 4_000_000_000_000 + int64(n)}
}

func enqueueWaiter(n int) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		r, err := s.Enqueue(ctx, x.pool(), fairqueue.EnqueueParams{Waiter: x.waiter(n), Weight: 1, MaxWaiting: 10, Requirements: "r"})
		return fmt.Sprint(r.Verdict), err
	}
}

func offerSlot(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	_, err := s.Offer(ctx, x.pool(), 1, []string{"x"})
	return "", err
}

func settleWaiter(how fairqueue.Settlement) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Settle(ctx, x.pool(), x.waiter(1), how)
	}
}

// withWaiters prepares two waiters.
func withWaiters(ctx context.Context, x *subject) error {
	return after(after(withNothing, enqueueWaiter(1)), enqueueWaiter(2))(ctx, x)
}

// withOffer prepares two waiters, the first of which has an offer.
func withOffer(ctx context.Context, x *subject) error { return after(withWaiters, offerSlot)(ctx, x) }

var waitingLostReplies = []lostReply{
	{name: "first waiter", command: "wait_enqueue", prepare: withNothing, call: enqueueWaiter(1)},
	{name: "another waiter", command: "wait_enqueue", prepare: withWaiters, call: enqueueWaiter(3)},
	{name: "offer", command: "wait_offer", prepare: withWaiters, call: offerSlot, counts: true},
	{name: "return", command: "wait_settle", prepare: withOffer, call: settleWaiter(fairqueue.Returned)},
	{name: "waiter gives up", command: "wait_settle", prepare: withWaiters, call: settleWaiter(fairqueue.Left)},
	{name: "waiter is served", command: "wait_settle", prepare: withOffer, call: settleWaiter(fairqueue.Served)},
	{name: "beat", command: "wait_beat", prepare: after(withOffer, settleWaiter(fairqueue.Left)), call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		r, err := s.Beat(ctx, x.pool(), "i-1")
		return fmt.Sprint(r.Waiters), err
	}},
}

// queueTimes matches times, which are those of the calls.
var queueTimes = regexp.MustCompile(`\b\d{13}\b`)

// addQueue adds a part of a key of a queue, without times and measured intervals.
func (s redisState) addQueue(label, key, value string) {
	switch {
	case label == "queue.timers":
		value = ""
	case label == "queue.book" && !strings.HasPrefix(key, "r|"):
		fields, rest := recordFields(key, value)
		switch key[0] {
		case 'p':
			fields = append(fields[:7], fields[9]) // without when the queue was called
		case 'c', 'f':
			fields[6] = "interval"
		}
		value = strings.Join(fields, " ") + " " + rest
	}
	s[label+"."+queueTimes.ReplaceAllString(key, "t")] = queueTimes.ReplaceAllString(value, "t")
}

// recordFields returns the numbers of a record (lib_wait.lua), and what follows them.
func recordFields(key, record string) (fields []string, rest string) {
	doubles := map[byte]int{'p': 10, 'c': 8, 'f': 8, 't': 6, 'i': 2, 'o': 4}[key[0]]
	for i := range doubles {
		fields = append(fields, strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64([]byte(record[8*i:]))), 'f', -1, 64))
	}
	return fields, record[8*doubles:]
}
