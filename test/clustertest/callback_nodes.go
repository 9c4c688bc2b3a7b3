package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/wire"
)

// drainTimeout is how long a callback node that stops has for its jobs.
const drainTimeout = 10 * time.Second

// AmbiguousNode is the name of the callback node whose answers leave open whether it has received a first attempt. It never
// has. Callers prefer it for some jobs: the instance that delivered such a job has to find out, and if that instance dies,
// another one has to.
const AmbiguousNode = "ambiguous"

// runCallbackNodes runs callback nodes until the context ends, and the ambiguous node beside them.
func runCallbackNodes(ctx context.Context, cfg DriverConfig, j *journal.Writer, ready func()) error {
	api := newSchedulerClient(cfg.URL)
	defer api.Close()
	var running, notReady sync.WaitGroup
	notReady.Add(cfg.Count + 1)
	go func() {
		notReady.Wait()
		ready()
	}()
	errs := make([]error, cfg.Count+1)
	for i := range errs {
		n := &callbackNode{
			testNode: testNode{name: fmt.Sprintf("%s-%d", cfg.Name, i), seed: cfg.Seed, slots: cfg.Slots, journal: j,
				held: make(map[wire.ActiveJob]bool)},
			api: api, heartbeatNow: make(chan struct{}, 1), active: make(map[wire.ActiveJob]context.CancelFunc),
		}
		n.omitsActive = i%2 == 1 || i == cfg.Count // which the protocol allows
		if n.ambiguous = i == cfg.Count; n.ambiguous {
			n.name, n.slots = AmbiguousNode, 4*cfg.Slots // slots stay taken until the attempt times out
		}
		n.onReady = sync.OnceFunc(notReady.Done)
		running.Go(func() {
			defer n.onReady()
			errs[i] = n.run(ctx)
			n.recordStop(errs[i])
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// callbackNode is a node that receives jobs over HTTP, as docs/http-nodes.md describes. It records the same entries as a
// socket node.
type callbackNode struct {
	testNode
	api          *lab.API
	omitsActive  bool          // never lists its active jobs
	ambiguous    bool          // leaves open whether it received a first attempt
	heartbeatNow chan struct{} // requests a heartbeat before the next interval
	ctx          context.Context
	tasks        sync.WaitGroup

	// Guarded by testNode.mu.
	active map[wire.ActiveJob]context.CancelFunc // received, and the result not acknowledged; the function cancels the work
	busy   int                                   // those of active that it works on
}

// run serves jobs until the context ends and no job is left.
func (n *callbackNode) run(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	nodeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.ctx = nodeCtx
	srv := &http.Server{Handler: http.HandlerFunc(n.serveAssignment), ReadHeaderTimeout: answerTimeout}
	n.tasks.Go(func() { _ = srv.Serve(listener) }) // closed below
	n.tasks.Go(func() { n.sendHeartbeats(ctx, "http://"+listener.Addr().String()+"/jobs") })
	<-ctx.Done()
	// The node reports that it drains in its heartbeats, and stops when it has no job.
	err = Eventually(nodeCtx, drainTimeout, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.active) > 0 {
			return fmt.Errorf("%s still has %d jobs", n.name, len(n.active))
		}
		return nil
	})
	n.mu.Lock()
	stop() // no job starts after this
	n.mu.Unlock()
	_ = srv.Close()
	n.tasks.Wait()
	return err
}

// sendHeartbeats registers the node and sends heartbeats, and registers again when the scheduler does not know the node.
func (n *callbackNode) sendHeartbeats(ctx context.Context, url string) {
	var epoch int64
	every := time.Second
	for seq := uint64(1); n.ctx.Err() == nil; seq++ {
		var cancel []wire.ActiveJob
		var err error
		if epoch == 0 {
			var out wire.RegisterResponse
			if err = n.api.Post(n.ctx, "/v1/node/register", wire.RegisterRequest{NodeID: n.name, Declaration: n.declaration(ctx, url)},
				&out); err == nil {
				n.journal.Add(journal.Entry{Source: n.name, Kind: journal.NodeRegistered, Slots: n.slots})
				epoch, every, cancel = out.Epoch, time.Duration(out.HeartbeatIntervalMS)*time.Millisecond, out.Cancel
				n.onReady()
			}
		} else {
			var out wire.HeartbeatResponse
			in := wire.HeartbeatRequest{NodeID: n.name, Epoch: &epoch, HBSeq: &seq, Declaration: n.declaration(ctx, "")}
			err = n.api.Post(n.ctx, "/v1/node/heartbeat", in, &out)
			cancel = out.Cancel
			var refusal *wire.Error
			if errors.As(err, &refusal) && (refusal.Code == wire.NotFound || refusal.Code == wire.StaleEpoch) {
				epoch = 0
				continue
			}
		}
		n.cancelJobs(cancel)
		n.waitHeartbeat(run.Jitter(every, 0.2))
	}
}

// waitHeartbeat waits until the next heartbeat is due.
func (n *callbackNode) waitHeartbeat(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-n.ctx.Done():
	case <-n.heartbeatNow:
	case <-t.C:
	}
}

// declaration returns what a heartbeat declares; with a callback URL, what a registration declares.
func (n *callbackNode) declaration(ctx context.Context, url string) wire.Declaration {
	d := wire.Declaration{Health: "ready"}
	if ctx.Err() != nil {
		d.Health = "draining"
	}
	if url != "" {
		d.SemanticLangs, d.MaxConcurrentJobs, d.CallbackURL = []string{"en", "es"}, &n.slots, &url
	}
	if n.omitsActive {
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

// cancelJobs cancels jobs. A job that is no longer here ended while the heartbeat was under way: the next heartbeat, which
// does not list it, frees its slot.
func (n *callbackNode) cancelJobs(jobs []wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, job := range jobs {
		if stop := n.active[job]; stop != nil {
			stop()
		} else {
			n.requestHeartbeat()
		}
	}
}

// requestHeartbeat makes the next heartbeat due now.
func (n *callbackNode) requestHeartbeat() {
	select {
	case n.heartbeatNow <- struct{}{}:
	default:
	}
}

// serveAssignment is the callback: it receives a job.
func (n *callbackNode) serveAssignment(w http.ResponseWriter, r *http.Request) {
	var a wire.Assignment
	if err := json.NewDecoder(io.LimitReader(r.Body, wire.MaxBody)).Decode(&a); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	key := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	draw := n.rand(&node.Job{ID: a.JobID, Attempt: a.AttemptID}).Float64()
	if n.ambiguous && a.AttemptID == 1 {
		n.journal.Add(journal.Entry{Source: n.name, Kind: journal.JobAssigned, Job: a.JobID, Attempt: a.AttemptID, Slots: n.slots,
			Code: "delivery failed"})
		n.failDelivery(w, r, draw)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e := journal.Entry{Source: n.name, Kind: journal.JobAssigned, Job: a.JobID, Attempt: a.AttemptID, Held: len(n.held), Slots: n.slots}
	if e.Held >= n.slots && !n.held[key] {
		e.Kind = journal.JobOverAssigned
	}
	n.journal.Add(e)
	switch {
	case n.ctx.Err() != nil:
		w.WriteHeader(http.StatusGone)
	case n.active[key] != nil:
		n.tasks.Go(func() { _ = n.report(n.ctx, "ack", key, nil) }) // a repeated delivery is acknowledged again, and not started again
	case n.busy >= n.slots || a.AttemptID == 1 && draw < busyRate:
		n.journal.Add(journal.Entry{Source: n.name, Kind: journal.JobRejected, Job: a.JobID, Attempt: a.AttemptID, Code: "NODE_BUSY"})
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		n.startJob(key, a)
	}
}

// failDelivery rejects a job in a way that leaves open whether the node received it.
func (n *callbackNode) failDelivery(w http.ResponseWriter, r *http.Request, draw float64) {
	switch {
	case draw < 1.0/3:
		w.WriteHeader(http.StatusBadGateway)
	case draw < 2.0/3:
		panic(http.ErrAbortHandler) // breaks the connection
	default:
		select {
		case <-r.Context().Done(): // the instance no longer waits
		case <-n.ctx.Done():
		}
	}
}

// startJob starts the work on a job.
func (n *callbackNode) startJob(key wire.ActiveJob, a wire.Assignment) {
	ctx, stop := context.WithTimeout(n.ctx, time.Duration(a.TimeoutMS)*time.Millisecond)
	n.held[key], n.active[key] = true, stop
	n.busy++
	n.tasks.Go(func() {
		defer stop()
		taken := n.runJob(ctx, key, &a)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.active, key)
		if !taken {
			n.requestHeartbeat() // the slot becomes free with a heartbeat that does not list the job
		}
	})
}

// runJob acknowledges a job, works on it and reports the outcome. It returns whether the report was accepted.
func (n *callbackNode) runJob(ctx context.Context, key wire.ActiveJob, a *wire.Assignment) bool {
	err := n.report(ctx, "ack", key, nil)
	var text string
	if err == nil {
		n.journal.Add(journal.Entry{Source: n.name, Kind: journal.JobAcked, Job: key.JobID, Attempt: key.AttemptID})
		text, err = n.recordWork(ctx, key, a)
	}
	n.mu.Lock()
	n.busy--
	delete(n.held, key) // from here on the slot is free for the node, whether or not the scheduler knows
	n.mu.Unlock()
	var failed jobError
	switch {
	case err == nil:
		err = n.report(ctx, "done", key, map[string]any{"status": "ok", "result": map[string]string{"text_tgt": text}})
	case errors.As(err, &failed):
		err = n.report(ctx, "fail", key, map[string]any{"reason": string(failed)})
	}
	e := journal.Entry{Source: n.name, Kind: journal.ResultAcked, Job: key.JobID, Attempt: key.AttemptID, OK: err == nil}
	if err != nil {
		e.Code = err.Error()
	}
	n.journal.Add(e)
	return err == nil
}

// report sends a report about a job until a repeat would not change the answer, or the attempt has timed out.
func (n *callbackNode) report(ctx context.Context, what string, key wire.ActiveJob, fields map[string]any) error {
	in := map[string]any{"job_id": key.JobID, "attempt_id": key.AttemptID, "node_id": n.name}
	for name, value := range fields {
		in[name] = value
	}
	var ok wire.OKResponse
	return n.api.PostRetry(ctx, "/v1/job/"+what, in, &ok)
}

// recordWork does the work and records its start and its end.
func (n *callbackNode) recordWork(ctx context.Context, key wire.ActiveJob, a *wire.Assignment) (string, error) {
	e := journal.Entry{Source: n.name, Job: key.JobID, Attempt: key.AttemptID}
	return recordAttempt(ctx, n.journal, &n.working, e, func() (string, error) { return n.work(ctx, a) })
}

// jobError is the reason for which a node fails a job.
type jobError string

func (f jobError) Error() string { return string(f) }

// work takes some time and returns a result that names its origin.
func (n *callbackNode) work(ctx context.Context, a *wire.Assignment) (string, error) {
	size := int64(0)
	if a.Audio != nil {
		var err error
		if size, err = n.fetchAudio(ctx, a.AudioRef); err != nil {
			return "", err
		}
	}
	r := n.rand(&node.Job{ID: a.JobID, Attempt: a.AttemptID})
	draw := r.Float64()
	if !run.Sleep(ctx, 100*time.Millisecond+time.Duration(r.Int64N(int64(500*time.Millisecond)))) {
		return "", ctx.Err()
	}
	if a.AttemptID == 1 && draw > 1-failRate {
		return "", jobError("DRILL")
	}
	text, err := json.Marshal(resultOrigin{Node: n.name, Job: a.JobID, Attempt: a.AttemptID, Bytes: size})
	return string(text), err
}

// fetchAudio downloads the audio of a job and returns its size. It makes a few tries.
func (n *callbackNode) fetchAudio(ctx context.Context, address string) (int64, error) {
	var size int64
	fetch := func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := n.api.HTTP.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("download the audio: %s", resp.Status)
		}
		size, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for range 3 {
		if fetch() == nil {
			return size, nil
		}
		if !run.SleepJitter(ctx, 200*time.Millisecond, 0.5) {
			return 0, ctx.Err()
		}
	}
	return 0, jobError("AUDIO_LOST")
}
