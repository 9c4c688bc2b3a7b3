package redisstore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// crowdNode is a node as it really is: what it was given and still has. Its word is honest, and the auditor's book.
type crowdNode struct {
	crowd *crowd
	id    core.NodeID
	slots int

	mu    sync.Mutex
	epoch core.Epoch
	seq   uint64
	away  bool // between two lives
	jobs  map[store.ActiveJob]*work
	most  int             // jobs it was running at once
	idle  map[string]idle // leases of jobs that it does not have, by their names
	diary diary

	last note // the heartbeat before this one
}

// work is one job on a node. What is finished is on the node's list until its result was acknowledged.
type work struct{ finished bool }

// running is how many jobs the node is working on.
func (n *crowdNode) running() int {
	count := 0
	for _, w := range n.jobs {
		if !w.finished {
			count++
		}
	}
	return count
}

// assigned takes a job, or does not. A job that comes so late that its lease may have been judged meanwhile is
// refused: a real delivery has a deadline before that, too.
func (n *crowdNode) assigned(a note) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	job := store.ActiveJob{Job: a.Job, Attempt: a.Attempt}
	switch age := time.Since(time.UnixMilli(a.At)); {
	case n.away || n.epoch != a.Epoch || age > crowdTiming.ReservedTTL-200*time.Millisecond:
		return "refused"
	case n.jobs[job] != nil:
		n.crowd.book.twice("%s was given attempt %d of %s twice", n.id, a.Attempt, a.Job)
		return "refused"
	case n.running() >= n.slots:
		n.crowd.book.over("%s was given %s beside %d running jobs on %d slots:\n%s", n.id, a.Job, n.running(), n.slots, &n.diary)
		return "busy"
	case !n.crowd.calm.Load() && rand.IntN(50) == 0:
		return "busy"
	}
	w := &work{}
	n.jobs[job] = w
	n.diary.add("takes %v, asked for at %s", job, time.UnixMilli(a.At).Format("05.000"))
	n.most = max(n.most, n.running())
	n.crowd.works.Go(func() { n.do(job, w) })
	if !n.crowd.calm.Load() && rand.IntN(100) == 0 {
		return "silence"
	}
	return "taken"
}

// drop lets go of a job.
func (n *crowdNode) drop(job store.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.jobs, job)
	n.diary.add("lets go of %v", job)
}

// finish ends the work on a job, unless the node has let go of it.
func (n *crowdNode) finish(job store.ActiveJob, w *work) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.jobs[job] != w {
		return false
	}
	w.finished = true
	n.diary.add("finishes %v", job)
	return true
}

// stop lets go of jobs that the node was told to stop, but a node that is busy takes a while to hear it.
func (n *crowdNode) stop(jobs ...store.ActiveJob) {
	for _, job := range jobs {
		n.mu.Lock()
		n.diary.add("is told to stop %v", job)
		n.mu.Unlock()
		n.crowd.works.Go(func() {
			backoff.Sleep(n.crowd.phase, rand.N(300*time.Millisecond))
			n.drop(job)
		})
	}
}

// fate is what becomes of a job on a node: how long it takes, and what the node then says.
type fate struct {
	takes time.Duration
	says  string // nothing: the node loses it
}

// draw chooses a fate. Some jobs fail, some are lost, some outlast the leases' time, and some never come to an end.
func (c *crowd) draw() fate {
	f := fate{takes: rand.N(12 * time.Millisecond), says: "done"}
	if c.calm.Load() {
		return f
	}
	switch n := rand.IntN(1000); {
	case n < 1:
		f.takes = time.Hour
	case n < 6:
		f.takes = crowdTiming.Presence + rand.N(crowdTiming.Presence)
	case n < 26:
		f.takes = rand.N(crowdTiming.Presence / 2)
	case n < 33:
		f.says = ""
	case n < 80:
		f.says = "fail"
	}
	return f
}

// do is the life of a job on the node.
func (n *crowdNode) do(job store.ActiveJob, w *work) {
	ctx, f := n.crowd.phase, n.crowd.draw()
	if !backoff.Sleep(ctx, f.takes) {
		return
	}
	if f.says == "" {
		n.drop(job)
		return
	}
	if !n.finish(job, w) {
		return
	}
	for {
		n.mu.Lock()
		epoch := n.epoch
		n.mu.Unlock()
		a, ok := n.crowd.crew.ask(note{Kind: f.says, Node: n.id, Epoch: epoch, Job: job.Job, Attempt: job.Attempt})
		switch {
		case !ok:
			return
		case a.Said == store.HolderStaleEpoch.String():
			if !backoff.Sleep(ctx, 20*time.Millisecond) { // until the node has heard of its own new life
				return
			}
			continue
		case a.Said == "stands" && f.says == "done":
			n.crowd.book.accepted(n.id, job)
		}
		n.drop(job)
		return
	}
}

// list is every job the node has.
func (n *crowdNode) list() []store.ActiveJob {
	list := make([]store.ActiveJob, 0, len(n.jobs))
	for job := range n.jobs {
		list = append(list, job)
	}
	return list
}

// beats sends heartbeats to whichever scheduler is there, and now and then begins a new life.
func (n *crowdNode) beats(ctx context.Context) {
	for backoff.SleepJitter(ctx, crowdTiming.Presence/20, 0.3) {
		stale := false
		if n.crowd.calm.Load() || rand.IntN(100) > 0 {
			var ok bool
			if stale, ok = n.beat(); !ok {
				return
			}
			if !stale {
				continue
			}
		}
		// Whoever carries out a registration may die before it answers, and what it sent may arrive after the next
		// one: then the node is told at its next heartbeat that it has registered again since.
		if !n.rebirth(!stale && rand.IntN(2) == 0) {
			return
		}
	}
}

// beat sends one heartbeat, until somebody has answered it. A scheduler that dies over it may have passed it on: the
// next one is told the very same. It reports whether the node's life is over, and false when nobody is there.
func (n *crowdNode) beat() (stale, ok bool) {
	var b note
	var made time.Time
	for {
		m := n.crowd.crew.pick()
		if m == nil {
			return false, false
		}
		if time.Since(made) > crowdTiming.Presence/3 {
			made = time.Now()
			n.mu.Lock()
			n.seq++
			b = note{Kind: "beat", Node: n.id, Epoch: n.epoch, Seq: n.seq, Jobs: n.list()}
			n.diary.add("heartbeat %d of epoch %d lists %v", b.Seq, b.Epoch, b.Jobs)
			n.mu.Unlock()
			if rand.IntN(5) == 0 { // what it is given meanwhile is not on its list
				backoff.Sleep(n.crowd.phase, rand.N(crowdTiming.Presence/15))
			}
		}
		a, answered := m.ask(b)
		n.mu.Lock()
		n.diary.add("heartbeat %d is answered (%v): %s, stop %v", b.Seq, answered, a.Said, a.Jobs)
		n.mu.Unlock()
		if !answered {
			continue
		}
		switch a.Said {
		case store.OK.String():
			n.listed(b.Jobs, made)
			n.stop(a.Jobs...)
			if old := n.last; rand.IntN(20) == 0 && old.Seq > 0 { // one comes once more, and too late
				n.crowd.works.Go(func() { n.crowd.crew.ask(old) })
			}
			n.last = b
		case store.StaleEpoch.String():
			return true, true
		default:
			n.crowd.t.Errorf("heartbeat %d of %s: %q", b.Seq, n.id, a.Said)
		}
		return false, true
	}
}

// rebirth registers again, with the jobs the node has or after it lost them all.
func (n *crowdNode) rebirth(forgets bool) bool {
	n.mu.Lock()
	n.away = true
	if forgets {
		clear(n.jobs)
	}
	b := note{Kind: "register", Node: n.id, Slots: n.slots, Jobs: n.list()}
	n.diary.add("registers again with %v", b.Jobs)
	n.mu.Unlock()
	a, ok := n.crowd.crew.ask(b)
	if !ok {
		return false
	}
	n.stop(a.Jobs...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.diary.add("is registered as epoch %d, stop %v", a.Epoch, a.Jobs)
	n.away, n.epoch = false, a.Epoch
	return true
}
