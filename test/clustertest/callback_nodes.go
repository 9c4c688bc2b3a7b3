package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/test/fleet"
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
	return runAll(cfg.Count+1, ready, func(i int, isReady func()) error {
		n := &callbackNode{
			testNode: testNode{name: fmt.Sprintf("%s-%d", cfg.Name, i), seed: cfg.Seed, slots: cfg.Slots, journal: j}, http: api.HTTP,
		}
		options := fleet.CallbackOptions{
			API: func() *lab.API { return api }, Work: n.recordWork, Busy: n.isBusy, OnEvent: n.recordEvent, Minimal: true,
			OmitsActive: i%2 == 1 || i == cfg.Count, // which the protocol allows
		}
		if i == cfg.Count {
			n.name, n.slots = AmbiguousNode, 4*cfg.Slots // slots stay taken until the attempt times out
			options.Intercept = n.failFirstDelivery
		}
		options.ID, options.Declaration = n.name, wire.Declaration{SemanticLangs: []string{"en", "es"}, MaxConcurrentJobs: &n.slots}
		err := n.run(ctx, options, isReady)
		n.recordStop(err)
		return err
	})
}

// callbackNode is a node that receives jobs over HTTP. It records the same entries as a socket node.
type callbackNode struct {
	testNode
	http *http.Client
}

// run serves jobs until the context ends and no job is left.
func (n *callbackNode) run(ctx context.Context, options fleet.CallbackOptions, ready func()) error {
	served, err := fleet.StartCallbackNode(ctx, options)
	if err != nil {
		return err
	}
	ready()
	defer served.Kill()
	<-ctx.Done()
	return served.Drain(drainTimeout)
}

// recordEvent adds what the node saw to the journal.
func (n *callbackNode) recordEvent(seen fleet.CallbackEvent) {
	e := journal.Entry{Source: n.name, Job: seen.Job.JobID, Attempt: seen.Job.AttemptID}
	switch seen.Kind {
	case fleet.EventRegistered:
		e.Kind, e.Slots = journal.NodeRegistered, n.slots
	case fleet.EventAssigned:
		e.Kind, e.Slots, e.Held = journal.JobAssigned, n.slots, seen.Working
		if seen.Working >= n.slots {
			e.Kind = journal.JobOverAssigned
		}
	case fleet.EventRejected:
		e.Kind, e.Code = journal.JobRejected, "NODE_BUSY"
	case fleet.EventAcked:
		e.Kind = journal.JobAcked
	case fleet.EventEnded:
		e.Kind, e.OK = journal.ResultAcked, seen.Err == nil
		if seen.Err != nil {
			e.Code = seen.Err.Error()
		}
	}
	n.journal.Add(e)
}

// drawFor returns the source of random numbers for an attempt.
func (n *callbackNode) drawFor(a *wire.Assignment) *rand.Rand {
	return n.rand(&node.Job{ID: a.JobID, Attempt: a.AttemptID})
}

// isBusy makes the node reject some first attempts.
func (n *callbackNode) isBusy(a *wire.Assignment) bool {
	return a.AttemptID == 1 && n.drawFor(a).Float64() < busyRate
}

// failFirstDelivery rejects a first attempt in a way that leaves open whether the node received it.
func (n *callbackNode) failFirstDelivery(w http.ResponseWriter, r *http.Request, a *wire.Assignment) bool {
	if a.AttemptID > 1 {
		return false
	}
	n.journal.Add(journal.Entry{Source: n.name, Kind: journal.JobAssigned, Job: a.JobID, Attempt: a.AttemptID, Slots: n.slots,
		Code: "delivery failed"})
	switch draw := n.drawFor(a).Float64(); {
	case draw < 1.0/3:
		w.WriteHeader(http.StatusBadGateway)
	case draw < 2.0/3:
		panic(http.ErrAbortHandler) // breaks the connection
	default:
		<-r.Context().Done() // the instance no longer waits
	}
	return true
}

// recordWork does the work and records its start and its end.
func (n *callbackNode) recordWork(ctx context.Context, a *wire.Assignment) (string, error) {
	e := journal.Entry{Source: n.name, Job: a.JobID, Attempt: a.AttemptID}
	return recordAttempt(ctx, n.journal, &n.working, e, func() (string, error) { return n.work(ctx, a) })
}

// work takes some time and returns a result that names its origin.
func (n *callbackNode) work(ctx context.Context, a *wire.Assignment) (string, error) {
	size := int64(0)
	if a.Audio != nil {
		var err error
		if size, err = n.fetchAudio(ctx, a.AudioRef); err != nil {
			return "", err
		}
	}
	r := n.drawFor(a)
	draw := r.Float64()
	if !run.Sleep(ctx, 100*time.Millisecond+time.Duration(r.Int64N(int64(500*time.Millisecond)))) {
		return "", ctx.Err()
	}
	if a.AttemptID == 1 && draw > 1-failRate {
		return "", fleet.JobError("DRILL")
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
		resp, err := n.http.Do(r)
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
	return 0, fleet.JobError("AUDIO_LOST")
}
