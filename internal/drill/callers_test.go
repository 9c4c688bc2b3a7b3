package drill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// answerWithin is how long callers and HTTP nodes wait for an answer before they ask again, perhaps somebody else. A
	// node's confirmation has to be heard within twice that time.
	answerWithin = time.Second
	followEvery  = 150 * time.Millisecond
	// lookAgain is about how long after the end of its job a caller looks whether it is still the same end.
	lookAgain = 2 * time.Second
	// toDeaf is the part of calls that ask for the deaf node. It has room for about as many.
	toDeaf = 0.3
	// remembered is how long after a caller saw the end of its job the record is certainly kept. It is less than
	// recordKept, because a caller sees an end some time after it came about.
	remembered = recordKept / 2
)

// patient is a scheduler as somebody sees it who does not wait long for an answer, and then asks again.
func patient(url string) *sim.Peer {
	p := sim.NewPeer(url)
	p.Client.Timeout = answerWithin
	return p
}

// driveCallers has people call until the context ends, and returns when all that they called for has ended.
func driveCallers(calling context.Context, o orders, j *journal, ready func()) error {
	peer := patient(o.URL)
	defer peer.Close()
	var all sync.WaitGroup
	for i := range o.Count {
		c := &caller{name: fmt.Sprintf("%s-%d", o.Name, i), j: j, peer: peer, dice: rand.New(rand.NewPCG(o.Seed, uint64(i)))}
		all.Go(func() { c.keepCalling(calling, o.Every) })
	}
	ready()
	all.Wait()
	return nil
}

// caller has jobs done that no session asks for again: what becomes of them is up to the scheduler alone.
type caller struct {
	name string
	j    *journal
	peer *sim.Peer
	dice *rand.Rand
}

// keepCalling calls now and then, whether or not the last call has ended.
func (c *caller) keepCalling(calling context.Context, every time.Duration) {
	var calls sync.WaitGroup
	defer calls.Wait()
	if !backoff.Sleep(calling, time.Duration(c.dice.Int64N(int64(every)))) {
		return
	}
	for n := 0; ; n++ {
		one := &call{caller: c, wish: wire.DispatchRequest{
			RequestID: fmt.Sprintf("%s.%d", c.name, n), SessionID: c.name, SrcLang: "en", TgtLang: "es",
		}}
		if c.dice.Float64() < toDeaf {
			one.wish.Options.PreferredNodeID = new(deafNode)
		}
		calls.Go(func() { one.see(context.WithoutCancel(calling)) })
		if !backoff.SleepJitter(calling, every, 0.5) {
			return
		}
	}
}

// call is one wish of a caller.
type call struct {
	*caller
	wish wire.DispatchRequest
}

// entry begins an entry about the call.
func (c *call) entry(what string) entry {
	return entry{Who: c.name, What: what, Request: c.wish.RequestID}
}

// see sees the call through, and looks at it again later.
func (c *call) see(ctx context.Context) {
	c.j.note(c.entry(called))
	end := c.follow(ctx)
	end.What = terminal
	c.j.note(end)
	if end.Job == "" {
		return
	}
	backoff.SleepJitter(ctx, lookAgain, 0.5)
	again := c.look(ctx, end.Job)
	again.What = looked
	c.j.note(again)
}

// follow has the job made and returns how it ended. A job that is forgotten is asked for again.
func (c *call) follow(ctx context.Context) entry {
	for {
		e := c.ask(ctx)
		if e.Job == "" {
			return e
		}
		c.j.note(e)
		for e = c.look(ctx, e.Job); !e.OK && e.Code == ""; e = c.look(ctx, e.Job) {
			backoff.SleepJitter(ctx, followEvery, 0.5)
		}
		if e.Code != string(wire.NotFound) {
			return e
		}
		e.What = vanished
		c.j.note(e)
	}
}

// ask dispatches, under the same request_id until there is an answer that another try would not change.
func (c *call) ask(ctx context.Context) entry {
	e := c.entry(accepted)
	var out wire.DispatchResponse
	e.Code = c.insist(ctx, func() error { return c.peer.Post(ctx, "/v1/dispatch/f2f", c.wish, &out) })
	e.Job, e.Attempt, e.Node = out.JobID, out.AttemptID, out.NodeID
	return e
}

// look says how the job ended: OK, or a code. Neither: it has not.
func (c *call) look(ctx context.Context, job string) entry {
	var out wire.Job
	e := c.entry("")
	e.Job = job
	if e.Code = c.insist(ctx, func() error { return c.peer.Get(ctx, "/v1/jobs/"+job, &out) }); e.Code != "" {
		return e
	}
	e.Attempt, e.Node = out.AttemptID, out.NodeID
	switch out.State {
	case "DONE":
		e.OK = true
		var result struct {
			Text string `json:"text_tgt"`
		}
		_ = json.Unmarshal(out.Result, &result) // the checker finds that it names nobody
		if e.credit(result.Text); e.Node != out.NodeID && e.Code == "" {
			e.Code = "the record names " + out.NodeID
		}
	case "FAILED", "CANCELLED":
		e.Code = cmp.Or(out.Reason, out.State)
	}
	return e
}

// insist asks until there is an answer that another try would not change, and returns the code of a refusal.
func (c *call) insist(ctx context.Context, ask func() error) string {
	for wait := followEvery; ; wait = min(2*wait, time.Second) {
		err := ask()
		if err == nil {
			return ""
		}
		var said *wire.Error
		if !errors.As(err, &said) {
			backoff.SleepJitter(ctx, wait, 0.5)
			continue
		}
		if !said.Code.Retryable() {
			return string(said.Code)
		}
		e := c.entry(refused)
		e.Code = string(said.Code)
		c.j.note(e)
		backoff.SleepJitter(ctx, max(wait, time.Duration(said.RetryAfterMS)*time.Millisecond), 0.2)
	}
}

// credit notes who says in a result that they made it, and whether they made it for this attempt.
func (e *entry) credit(text string) {
	var by deed
	_ = json.Unmarshal([]byte(text), &by) // the checker finds that it names nobody
	e.Node, e.Bytes = by.Node, by.Bytes
	if by.Job != e.Job || by.Attempt != e.Attempt {
		e.Code = fmt.Sprintf("the node made it for attempt %d of %s", by.Attempt, by.Job)
	}
}
