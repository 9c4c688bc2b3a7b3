//go:build !race

// The race detector makes these tests five times slower, and they have one goroutine.

package redisstore_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// queuePair is a queue in Redis and its model, to which the same calls are made at the same times.
type queuePair struct {
	t      *rapid.T
	ctx    context.Context
	server *redistest.Server
	redis  *redisstore.Store
	clock  string
	pool   core.PoolID
	model  *fairqueue.Queue
	now    int64

	classes, tenants []string
	batch, slots     int // how many waiters are added, and slots offered, at most at once

	known   []fairqueue.EnqueueParams // that were accepted
	offered []fairqueue.Waiter
}

// TestQueueAgreesWithItsModel makes random calls to a queue in Redis and to package fairqueue, on the same clock, and compares every answer and what
// the queues hold.
func TestQueueAgreesWithItsModel(t *testing.T) {
	t.Parallel()
	compareWithModel(t, queuePair{classes: []string{"x0", "x1", "x2"}, tenants: []string{"", "a", "b", "c", "d"}, batch: 8, slots: 4})
}

// TestLargeQueueAgreesWithItsModel does the same with more tenants than wait_offer reads of a class at a time, and with tenants that wait in more
// classes than it compares. It keeps Redis busy, so it does not run in parallel with tests that depend on the clock.
func TestLargeQueueAgreesWithItsModel(t *testing.T) {
	p := queuePair{tenants: []string{"a", "B", "b", "ba", "c-", "c", "c_", "C", "d", "é", "e", "0", "f"}, batch: 160, slots: fairqueue.MaxOffers}
	for i := range fairqueue.MaxUrgent + 8 {
		p.classes = append(p.classes, fmt.Sprintf("x%02d", i))
	}
	compareWithModel(t, p)
}

func compareWithModel(t *testing.T, pair queuePair) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	pair.ctx, pair.server, pair.redis, pair.clock = t.Context(), server, s, "the-clock"
	s.UseClock(pair.clock)
	pools := 0
	rapid.Check(t, func(rt *rapid.T) {
		pools++
		p := pair
		p.t, p.pool, p.model, p.now = rt, core.PoolID(fmt.Sprintf("p%d", pools)), fairqueue.New(), 1_700_000_000_000
		p.advance()
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": p.enqueue, "repeat": p.repeat, "offer": p.offer, "serve": p.serve, "return": p.giveBack, "dequeue": p.dequeue, "beat": p.beat,
			"wait": p.wait, "": p.compare,
		})
	})
}

func (p *queuePair) must(err error) {
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *queuePair) same(what string, want, got any) {
	if reflect.DeepEqual(want, got) { // most are, and it is faster
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		p.t.Fatalf("%s (-model +redis):\n%s", what, diff)
	}
}

func (p *queuePair) advance() {
	_, err := p.server.Do("SET", p.clock, strconv.FormatInt(p.now, 10))
	p.must(err)
}

var drawInstance = rapid.SampledFrom([]string{"i-1", "i-2"})

func (p *queuePair) enqueue(t *rapid.T) {
	drawClass, drawTenant := rapid.SampledFrom(p.classes), rapid.SampledFrom(p.tenants)
	limits := rapid.SampledFrom([]int{p.batch / 2, 3 * p.batch})
	for range rapid.SampledFrom([]int{1, max(p.batch/8, 2), p.batch}).Draw(t, "waiters") {
		params := fairqueue.EnqueueParams{
			Waiter: fairqueue.Waiter{
				ID: fmt.Sprintf("job-%d", rapid.IntRange(0, 12*p.batch).Draw(t, "id")), Class: drawClass.Draw(t, "class"), Tenant: drawTenant.Draw(t, "tenant"),
				Instance: drawInstance.Draw(t, "instance"), Since: p.now, Deadline: p.now + rapid.Int64Range(-5, 4000).Draw(t, "for"),
			},
			Weight: rapid.SampledFrom([]int{0, 1, 2, 7, 1000, 2 * fairqueue.MaxWeight}).Draw(t, "weight"), MaxWaiting: limits.Draw(t, "max"),
			Repeat: rapid.IntRange(0, 3).Draw(t, "repeated") == 0,
		}
		params.Requirements = "r-" + params.Class
		p.enqueueBoth(params)
	}
}

func (p *queuePair) enqueueBoth(params fairqueue.EnqueueParams) {
	want := p.model.Enqueue(p.now, params)
	got, err := p.redis.Enqueue(p.ctx, p.pool, params)
	p.must(err)
	p.same("enqueue", want, got)
	if want.Verdict == fairqueue.Queued {
		p.known = append(p.known, params)
	}
}

func (p *queuePair) repeat(t *rapid.T) {
	if len(p.known) > 0 {
		params := rapid.SampledFrom(p.known).Draw(t, "known")
		params.Repeat = true
		p.enqueueBoth(params)
	}
}

func (p *queuePair) offer(t *rapid.T) {
	n := rapid.IntRange(0, p.slots).Draw(t, "slots")
	classes := rapid.Permutation(append(slices.Clone(p.classes), p.classes[0], "none")).Draw(t, "classes")
	classes = classes[rapid.IntRange(0, len(classes)).Draw(t, "left out"):]
	want := p.model.Offer(p.now, n, classes)
	got, err := p.redis.Offer(p.ctx, p.pool, n, classes)
	p.must(err)
	p.same("offer", want, got)
	for _, o := range want.Offers {
		p.offered = append(p.offered, o.Waiter)
	}
}

// serve offers slots, most of which the winners use at once, so that intervals are measured.
func (p *queuePair) serve(t *rapid.T) {
	before := len(p.offered)
	p.offer(t)
	for _, w := range p.offered[before:] {
		if rapid.IntRange(0, 4).Draw(t, "used") > 0 {
			p.dequeueBoth(w, fairqueue.Served)
		}
	}
}

func (p *queuePair) giveBack(t *rapid.T) {
	if w, ok := p.draw(t); ok {
		p.model.Return(p.now, w)
		p.must(p.redis.Settle(p.ctx, p.pool, w, fairqueue.Returned))
	}
}

// draw draws a waiter that has, or had, an offer, or any other.
func (p *queuePair) draw(t *rapid.T) (fairqueue.Waiter, bool) {
	switch {
	case len(p.offered) > 0 && rapid.IntRange(0, 3).Draw(t, "any") > 0:
		return rapid.SampledFrom(p.offered[max(0, len(p.offered)-8):]).Draw(t, "offered"), true
	case len(p.known) > 0:
		return rapid.SampledFrom(p.known).Draw(t, "known").Waiter, true
	}
	return fairqueue.Waiter{}, false
}

func (p *queuePair) dequeue(t *rapid.T) {
	if w, ok := p.draw(t); ok {
		p.dequeueBoth(w, rapid.SampledFrom([]fairqueue.Settlement{fairqueue.Served, fairqueue.Left}).Draw(t, "how"))
	}
}

func (p *queuePair) dequeueBoth(w fairqueue.Waiter, how fairqueue.Settlement) {
	p.model.Dequeue(p.now, w, how == fairqueue.Served)
	p.must(p.redis.Settle(p.ctx, p.pool, w, how))
}

func (p *queuePair) beat(t *rapid.T) {
	instance := drawInstance.Draw(t, "instance")
	want := p.model.Beat(p.now, instance)
	got, err := p.redis.Beat(p.ctx, p.pool, core.InstanceID(instance))
	p.must(err)
	p.same("beat", want, got)
}

func (p *queuePair) wait(t *rapid.T) {
	p.now += rapid.SampledFrom([]int64{1, 7, 40, 150, 301, 340, 701, 5001, 6001}).Draw(t, "ms")
	p.advance()
}

func (p *queuePair) compare(*rapid.T) {
	params := fairqueue.ViewParams{Flows: len(p.classes) * len(p.tenants), Waiters: 1000}
	got, err := p.redis.ViewQueue(p.ctx, p.pool, params)
	p.must(err)
	p.same("view", p.model.View(p.now, params), got)
	open, err := p.redis.OpenClasses(p.ctx, func(core.PoolID, string) bool { return false }, p.pool)
	p.must(err)
	want := make(map[string]string)
	for _, class := range p.model.OpenClasses() {
		want[class] = p.model.Requirements(class)
	}
	p.same("open classes", want, open[0])
}
