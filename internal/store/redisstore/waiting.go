package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// queueTTLMS is after what time without a beat the keys of a queue expire: no waiter waits that long.
const queueTTLMS = 180_000

// turnsRead is how many flows of a class wait_offer reads at a time if there are several slots to offer.
const turnsRead = 8

// waitConstants are the constants of the scripts of queues.
var waitConstants = map[string]int64{
	"UNIT": fairqueue.Unit, "OFFER_MS": fairqueue.OfferMS, "SILENCE_MS": fairqueue.SilenceMS, "FORGET_MS": fairqueue.ForgetMS,
	"FORGET_CLASS_MS": fairqueue.ForgetClassMS, "STALL_MS": fairqueue.StallMS, "QUEUE_TTL_MS": queueTTLMS,
	"MAX_OFFERS": fairqueue.MaxOffers, "MAX_COMPARED": fairqueue.MaxCompared, "MAX_ASKED": fairqueue.MaxAsked,
	"MAX_CLASSES": fairqueue.MaxClasses, "MIN_GRANTS": fairqueue.MinGrants,
	"MAX_LAG": fairqueue.MaxLag, "MAX_DEBT": fairqueue.MaxDebt, "MAX_DROPPED": fairqueue.MaxDropped, "MAX_TIMERS": fairqueue.MaxTimers,
	"MAX_FLOWS":  fairqueue.MaxFlows,
	"MAX_URGENT": fairqueue.MaxUrgent, "MAX_VIRTUAL": fairqueue.MaxVirtual, "TURNS_READ": turnsRead,
	"CLASS_GRANTS": fairqueue.ClassGrants, "FLOW_GRANTS": fairqueue.FlowGrants, "SHARE_SCALE": fairqueue.ShareScale,
	"QUEUED": int64(fairqueue.Queued), "EXPIRED": int64(fairqueue.Expired), "CANNOT_BE_MET": int64(fairqueue.CannotBeMet),
	"QUEUE_FULL": int64(fairqueue.QueueFull), "SERVED": int64(fairqueue.Served), "RETURNED": int64(fairqueue.Returned),
}

// queueScripts are the scripts of queues.
type queueScripts struct{ enqueue, offer, settle, beat, view script }

var scriptsOfQueues = loadQueueScripts(loadScript)

func loadQueueScripts(load func(name, reply string) script) *queueScripts {
	return &queueScripts{
		enqueue: load("wait_enqueue", "iii"), offer: load("wait_offer", "ii*t"), settle: load("wait_settle", "i"),
		beat: load("wait_beat", "ii"), view: load("wait_view", "i*(t?t?t?t?tT)"),
	}
}

// Enqueue implements store.Waiting.
func (s *Store) Enqueue(ctx context.Context, pool core.PoolID, p fairqueue.EnqueueParams) (fairqueue.EnqueueResult, error) {
	repeat := "0"
	if p.Repeat {
		repeat = "1"
	}
	_, r, err := s.client.runScript(ctx, &s.queueScripts.enqueue, s.keys.queue(pool), p.Member(), p.Requirements,
		strconv.Itoa(min(max(p.Weight, 1), fairqueue.MaxWeight)), strconv.Itoa(p.MaxWaiting), repeat)
	if isWrongType(err) { // the queue is lost: its waiters are put into it again
		_, e := s.client.command(ctx, s.client.redis.B().Del().Key(s.keys.queue(pool)...).Build())
		err = errors.Join(err, e)
	}
	if err != nil {
		return fairqueue.EnqueueResult{}, err
	}
	return fairqueue.EnqueueResult{Verdict: fairqueue.Verdict(r.int(0)), First: r.int(1) == 1, EstimateMS: r.int(2)}, nil
}

// Offer implements store.Waiting.
func (s *Store) Offer(ctx context.Context, pool core.PoolID, n int, classes []string) (fairqueue.OfferResult, error) {
	_, r, err := s.client.runScript(ctx, &s.queueScripts.offer, s.keys.queue(pool), append([]string{strconv.Itoa(n)}, classes...)...)
	if err != nil {
		return fairqueue.OfferResult{}, err
	}
	result := fairqueue.OfferResult{More: r.int(0) == 1}
	for i := 2; i < len(r.parts); i++ {
		result.Offers = append(result.Offers, fairqueue.Offer{Waiter: parseWaiter(r.text(i)), ExpiresAt: r.int(1)})
	}
	return result, nil
}

// Settle implements store.Waiting.
func (s *Store) Settle(ctx context.Context, pool core.PoolID, w fairqueue.Waiter, how fairqueue.Settlement) error {
	_, _, err := s.client.runScript(ctx, &s.queueScripts.settle, s.keys.queue(pool), w.Member(), strconv.Itoa(int(how)))
	return err
}

// Beat implements store.Waiting.
func (s *Store) Beat(ctx context.Context, pool core.PoolID, instance core.InstanceID) (fairqueue.BeatResult, error) {
	_, r, err := s.client.runScript(ctx, &s.queueScripts.beat, s.keys.queue(pool), string(instance))
	if err != nil {
		return fairqueue.BeatResult{}, err
	}
	return fairqueue.BeatResult{Waiters: int(r.int(0)), Freed: r.int(1) == 1}, nil
}

// OpenClasses implements store.Waiting. The requirements that the caller does not know are read by a second command for each pool.
func (s *Store) OpenClasses(
	ctx context.Context, known func(pool core.PoolID, class string) bool, pools ...core.PoolID,
) ([]map[string]string, error) {
	cmds := make([]rueidis.Completed, len(pools))
	for i, pool := range pools {
		cmds[i] = s.client.redis.B().Hkeys().Key(s.keys.openClasses(pool)).Build()
	}
	results, err := s.client.doMulti(s.client.beginCall(ctx), cmds)
	if err != nil {
		return nil, err
	}
	open := make([]map[string]string, len(pools))
	for i, pool := range pools {
		classes, err := results[i].AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("open classes: %w", convertError(err))
		}
		open[i] = make(map[string]string, len(classes))
		var unknown []string
		for _, class := range classes {
			open[i][class] = ""
			if known != nil && !known(pool, class) {
				unknown = append(unknown, class)
			}
		}
		if err := s.readRequirements(ctx, pool, unknown, open[i]); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// readRequirements reads the requirements of classes. A class in which nobody waits any more is removed.
func (s *Store) readRequirements(ctx context.Context, pool core.PoolID, classes []string, into map[string]string) error {
	if len(classes) == 0 {
		return nil
	}
	m, err := s.client.command(ctx, s.client.redis.B().Hmget().Key(s.keys.openClasses(pool)).Field(classes...).Build())
	if err != nil {
		return err
	}
	parts, err := m.ToArray()
	if err != nil {
		return fmt.Errorf("open classes: %w", err)
	}
	for i := range parts {
		if into[classes[i]], err = parts[i].ToString(); err != nil {
			delete(into, classes[i])
		}
	}
	return nil
}

// ViewQueue implements store.Waiting.
func (s *Store) ViewQueue(ctx context.Context, pool core.PoolID, p fairqueue.ViewParams) (fairqueue.View, error) {
	now, r, err := s.client.readScript(ctx, &s.queueScripts.view, s.keys.queue(pool), p.After, strconv.Itoa(p.Flows),
		strconv.Itoa(p.Waiters))
	if err != nil {
		return fairqueue.View{}, err
	}
	v := fairqueue.View{Now: now, More: r.int(0) == 1}
	for i := 1; i < len(r.parts); i++ {
		addFlow(&v, r.list(i))
	}
	return v, nil
}

// addFlow adds a flow of the reply of wait_view.lua, and its class, to a view.
func addFlow(v *fairqueue.View, r reply) {
	cursor := r.text(0)
	flow, class, tenant := numbers(r.text(1), 8), numbers(r.text(2), 8), numbers(r.text(4), 6)
	f := fairqueue.FlowView{
		Cursor: cursor, Waiting: int(flow[2]), Interval: fairqueue.Interval{US: flow[6], Grants: int(flow[7])},
		Weight: int(tenant[0]), TenantWaiting: int(tenant[1]), Granted: tenant[4], Entitled: tenant[5],
		Accrued: flow[3] * (class[4] - flow[4]),
	}
	f.Class, _, _ = strings.Cut(cursor, "|")
	f.Tenant = cursor[strings.LastIndexByte(cursor, '|')+1:]
	for _, member := range r.texts(5) {
		f.Waiters = append(f.Waiters, parseWaiter(member))
	}
	v.Flows = append(v.Flows, f)
	if len(v.Classes) == 0 || v.Classes[len(v.Classes)-1].ID != f.Class {
		v.Classes = append(v.Classes, fairqueue.ClassView{
			ID: f.Class, Requirements: r.text(3), Waiting: int(class[2]), Interval: fairqueue.Interval{US: class[6], Grants: int(class[7])},
		})
	}
}

// numbers decodes a record of so many doubles (lib_wait.lua), of which it returns the integer parts.
func numbers(record string, n int) []int64 {
	values := make([]int64, n)
	for i := range min(n, len(record)/8) {
		values[i] = int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(record[8*i:]))))
	}
	return values
}

// parseWaiter parses what fairqueue.Waiter.Member has written.
func parseWaiter(member string) fairqueue.Waiter {
	parts := append(strings.SplitN(member, "|", 6), make([]string, 6)...)
	return fairqueue.Waiter{
		Class: parts[0], Tenant: parts[1], Deadline: parseNumber(parts[2]), Since: parseNumber(parts[3]), Instance: parts[4], ID: parts[5],
	}
}
