package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/wire"
)

// leaveWithin is how long an HTTP node that is asked to go has for the jobs in its hands.
const leaveWithin = 10 * time.Second

// deafNode is the one HTTP node of which nobody knows whether it has the job that it was just given. It has not. Callers
// ask for it now and then: whoever gave it the job has to find out, and if they die meanwhile, others have to.
const deafNode = "deaf"

// driveCallbacks runs HTTP nodes until the context ends, and the deaf one beside them.
func driveCallbacks(work context.Context, o orders, j *journal, ready func()) error {
	peer := patient(o.URL)
	defer peer.Close()
	var all, there sync.WaitGroup
	there.Add(o.Count + 1)
	go func() {
		there.Wait()
		ready()
	}()
	errs := make([]error, o.Count+1)
	for i := range errs {
		n := &callback{
			worker: worker{name: fmt.Sprintf("%s-%d", o.Name, i), seed: o.Seed, slots: o.Slots, j: j, hand: make(map[wire.ActiveJob]bool)},
			peer:   peer, soon: make(chan struct{}, 1), active: make(map[wire.ActiveJob]context.CancelFunc),
		}
		n.quiet = i%2 == 1 || i == o.Count // which is allowed
		if n.deaf = i == o.Count; n.deaf {
			n.name, n.slots = deafNode, 4*o.Slots // they stay taken until the attempt would be over
		}
		n.there = sync.OnceFunc(there.Done)
		all.Go(func() {
			defer n.there()
			errs[i] = n.run(work)
			e := entry{Who: n.name, What: left, OK: errs[i] == nil}
			if errs[i] != nil {
				e.Code = errs[i].Error()
			}
			j.note(e)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// callback is a node that takes jobs by HTTP, as docs/http-nodes.md asks of one. It notes what a worker notes.
type callback struct {
	worker
	peer  *sim.Peer
	quiet bool          // it never lists its jobs
	deaf  bool          // nobody knows whether it has a first attempt
	soon  chan struct{} // the next heartbeat should not wait
	life  context.Context
	tasks sync.WaitGroup

	// Under the worker's mu.
	active map[wire.ActiveJob]context.CancelFunc // received, and the result not yet acknowledged; ends the work on it
	busy   int                                   // of these, those that it works on
}

// run serves until the context ends and nothing is left in its hands.
func (n *callback) run(work context.Context) error {
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(work))
	n.life = life
	srv := &http.Server{Handler: http.HandlerFunc(n.take), ReadHeaderTimeout: answerWithin}
	n.tasks.Go(func() { _ = srv.Serve(door) }) // closed below
	n.tasks.Go(func() { n.pulse(work, "http://"+door.Addr().String()+"/jobs") })
	<-work.Done()
	// It says in its heartbeats that it takes nothing new, and goes when it has nothing any more.
	err = eventually(life, leaveWithin, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.active) > 0 {
			return fmt.Errorf("%s still has %d jobs", n.name, len(n.active))
		}
		return nil
	})
	n.mu.Lock()
	end() // nothing is begun from here on
	n.mu.Unlock()
	_ = srv.Close()
	n.tasks.Wait()
	return err
}

// pulse registers the node and sends heartbeats, and registers it again whenever it is not known.
func (n *callback) pulse(work context.Context, url string) {
	var epoch int64
	every := time.Second
	for seq := uint64(1); n.life.Err() == nil; seq++ {
		var cancel []wire.ActiveJob
		var err error
		if epoch == 0 {
			var out wire.RegisterResponse
			if err = n.peer.Post(n.life, "/v1/node/register", wire.RegisterRequest{NodeID: n.name, Declaration: n.declare(work, url)}, &out); err == nil {
				n.j.note(entry{Who: n.name, What: registered, Slots: n.slots})
				epoch, every, cancel = out.Epoch, time.Duration(out.HeartbeatIntervalMS)*time.Millisecond, out.Cancel
				n.there()
			}
		} else {
			var out wire.HeartbeatResponse
			in := wire.HeartbeatRequest{NodeID: n.name, Epoch: &epoch, HBSeq: &seq, Declaration: n.declare(work, "")}
			err = n.peer.Post(n.life, "/v1/node/heartbeat", in, &out)
			cancel = out.Cancel
			var said *wire.Error
			if errors.As(err, &said) && (said.Code == wire.NotFound || said.Code == wire.StaleEpoch) {
				epoch = 0
				continue
			}
		}
		n.stop(cancel)
		n.rest(backoff.Jitter(every, 0.2))
	}
}

// rest waits for the next heartbeat.
func (n *callback) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-n.life.Done():
	case <-n.soon:
	case <-t.C:
	}
}

// declare is what a heartbeat says, and with an address what a registration says.
func (n *callback) declare(work context.Context, url string) wire.Declaration {
	d := wire.Declaration{Health: "ready"}
	if work.Err() != nil {
		d.Health = "draining"
	}
	if url != "" {
		d.SemanticLangs, d.MaxConcurrentJobs, d.CallbackURL = []string{"en", "es"}, &n.slots, &url
	}
	if n.quiet {
		return d
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	d.Active = make([]wire.ActiveAttempt, 0, len(n.active))
	for job := range n.active {
		d.Active = append(d.Active, wire.ActiveAttempt{ActiveJob: job})
	}
	return d
}

// stop ends what it was told to stop. One that is not there any more crossed the heartbeat: the next, which does not list
// it, frees its slot.
func (n *callback) stop(jobs []wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, job := range jobs {
		if stop := n.active[job]; stop != nil {
			stop()
		} else {
			n.hurry()
		}
	}
}

// hurry brings the next heartbeat forward.
func (n *callback) hurry() {
	select {
	case n.soon <- struct{}{}:
	default:
	}
}
