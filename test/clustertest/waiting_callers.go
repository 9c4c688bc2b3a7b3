package clustertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/wire"
)

// ConnectionLost is the code of a request that was not answered because its connection was lost, or never made.
const ConnectionLost = "CONNECTION_LOST"

const (
	// hangTimeout is how long after the end of its wait a request is given up that has no answer.
	hangTimeout = 40 * time.Second
	// twiceShare is the share of requests that are sent to two instances, and leaveShare that of requests whose callers disconnect.
	twiceShare, leaveShare = 0.1, 0.15
	// placedPause is the mean pause after a request was placed. With it requests wait most of the time, and slots are empty sometimes.
	placedPause = 700 * time.Millisecond
	// maxRefusalPause bounds the pause after a refusal.
	maxRefusalPause = 500 * time.Millisecond
)

// waitTimes are how long requests may wait, and waitDirections are their directions.
var (
	waitTimes      = []time.Duration{400 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second, 8 * time.Second}
	waitDirections = [][2]string{{"en", "es"}, {"es", "en"}, {"en", "zh"}, {"de", "en"}, {"es", "zh"}}
)

// runWaitingCallers dispatches jobs that may wait for a slot, until the context ends. Each caller has one request at a time that is not
// placed.
func runWaitingCallers(ctx context.Context, cfg DriverConfig, j *journal.Writer, ready func()) error {
	outcomes := newSchedulerClient(cfg.URL)
	defer outcomes.Close()
	// A connection of its own for each request: what it is answered is then the answer of one instance.
	transport := &http.Transport{DisableKeepAlives: true}
	var instances []*lab.API
	for _, url := range cfg.Instances {
		instances = append(instances, &lab.API{URL: url, HTTP: &http.Client{Transport: transport}})
	}
	return runAll(cfg.Count, ready, func(i int, isReady func()) error {
		isReady()
		c := &waitingCaller{
			caller: &caller{name: fmt.Sprintf("%s-%d", cfg.Name, i), journal: j, api: outcomes}, tenant: cfg.Tenants[i%len(cfg.Tenants)],
			instances: instances, rand: rand.New(rand.NewPCG(cfg.Seed, uint64(i))),
		}
		c.run(ctx)
		return nil
	})
}

// waitingCaller dispatches jobs over HTTP that may wait for a slot.
type waitingCaller struct {
	*caller
	tenant    string
	instances []*lab.API
	rand      *rand.Rand
	open      sync.WaitGroup
}

// run sends one request after the other. The jobs of those that were placed run meanwhile.
func (c *waitingCaller) run(ctx context.Context) {
	defer c.open.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		direction := waitDirections[c.rand.IntN(len(waitDirections))]
		wait := waitTimes[c.rand.IntN(len(waitTimes))].Milliseconds()
		pause := c.dispatch(context.WithoutCancel(ctx), wire.DispatchRequest{
			RequestID: fmt.Sprintf("%s.%d", c.name, n), SessionID: c.tenant + "." + c.name, TenantID: c.tenant, SrcLang: direction[0],
			TgtLang: direction[1],
			Options: wire.DispatchOptions{MaxWaitMS: &wait},
		})
		run.SleepJitter(ctx, pause, 0.9)
	}
}

// dispatch sends a request to one instance or to two, and returns when all have answered. It returns how long the caller pauses then.
func (c *waitingCaller) dispatch(ctx context.Context, r wire.DispatchRequest) (pause time.Duration) {
	wait := time.Duration(*r.Options.MaxWaitMS) * time.Millisecond
	sends, leaveAfter := []int{c.rand.IntN(len(c.instances))}, time.Duration(0)
	switch draw := c.rand.Float64(); {
	case draw < twiceShare:
		sends = append(sends, (sends[0]+1)%len(c.instances))
	case draw < twiceShare+leaveShare:
		leaveAfter = 1 + time.Duration(c.rand.Int64N(int64(wait)))
	}
	delay := time.Duration(c.rand.Int64N(int64(wait / 2)))
	refusals := make([]*wire.Error, len(sends))
	placed := make([]bool, len(sends))
	var sending sync.WaitGroup
	for i, instance := range sends {
		sending.Go(func() {
			run.Sleep(ctx, time.Duration(i)*delay)
			placed[i], refusals[i] = c.send(ctx, r, instance, leaveAfter)
		})
	}
	sending.Wait()
	for i := range sends {
		if placed[i] {
			c.open.Go(func() { (&call{caller: c.caller, request: r}).run(ctx) })
			return placedPause
		}
		if refusals[i] != nil {
			pause = max(pause, min(time.Duration(refusals[i].RetryAfterMS)*time.Millisecond, maxRefusalPause))
		}
	}
	return max(pause, 20*time.Millisecond)
}

// send sends a request to an instance, and records the answer. If leaveAfter is not 0, the caller disconnects after that time.
func (c *waitingCaller) send(ctx context.Context, r wire.DispatchRequest, instance int, leaveAfter time.Duration) (placed bool,
	_ *wire.Error) {
	limit := time.Duration(*r.Options.MaxWaitMS)*time.Millisecond + hangTimeout
	if leaveAfter > 0 {
		limit = leaveAfter
	}
	e := journal.Entry{Source: c.name, Request: r.RequestID, Conn: instance}
	sent := e
	sent.Kind, sent.Session, sent.Seq, sent.Code = journal.WaitSent, r.SessionID, *r.Options.MaxWaitMS, r.SrcLang+">"+r.TgtLang
	c.journal.Add(sent)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out wire.DispatchResponse
	err := c.instances[instance].Post(bounded, "/v1/dispatch/f2f", r, &out)
	e.Kind = journal.WaitAnswered
	var refusal *wire.Error
	switch {
	case err == nil:
		e.OK, e.Job, e.Attempt, e.Node = true, out.JobID, out.AttemptID, out.NodeID
	case errors.As(err, &refusal):
		e.Code = string(refusal.Code)
	case leaveAfter > 0 && bounded.Err() != nil:
		e.Kind = journal.WaitLeft
	case bounded.Err() != nil:
		return false, nil // the checker finds that it has no answer
	default:
		e.Code = ConnectionLost
	}
	c.journal.Add(e)
	return e.OK, refusal
}
