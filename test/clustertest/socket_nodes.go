package clustertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/wire"
)

// The rates at which nodes fail or reject first attempts. Later attempts succeed, so that no job fails because of them.
const failRate, busyRate = 0.01, 0.01

// DefaultWork is the mean duration of the work on a job.
const DefaultWork = 350 * time.Millisecond

// runSocketNodes runs nodes of package node until the context ends.
func runSocketNodes(ctx context.Context, cfg DriverConfig, j *journal.Writer, ready func()) error {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return runAll(cfg.Count, ready, func(i int, isReady func()) error {
		kind := cfg.KindOf(i)
		n := &testNode{name: cfg.NodeName(i), seed: cfg.Seed, slots: kind.Slots, journal: j, work: cmp.Or(cfg.Work, DefaultWork),
			onReady: isReady, held: make(map[wire.ActiveJob]bool)}
		err := node.Run(ctx, node.Config{
			URL: cfg.URL, ID: n.name, Slots: kind.Slots, ShutdownTimeout: 10 * time.Second, Log: log.With("node_id", n.name),
			HTTPClient: &http.Client{Transport: &frameRecorder{transport: transport, onConnect: n.recordConnection,
				onText: n.recordFrame}},
			Declaration: wire.Declaration{SemanticLangs: kind.Langs, TTSLangs: kind.Langs},
		}, n.handleJob)
		n.recordStop(err)
		return err
	})
}

// testNode is a node with a socket, and the common part of both kinds of nodes.
type testNode struct {
	name    string
	seed    uint64
	slots   int
	work    time.Duration // the mean duration
	journal *journal.Writer
	onReady func()
	working atomic.Int64

	mu   sync.Mutex
	held map[wire.ActiveJob]bool // attempts that were assigned and that the scheduler cannot regard as ended
}

// recordStop records that the node has stopped, with the error by which it did.
func (n *testNode) recordStop(err error) {
	e := journal.Entry{Source: n.name, Kind: journal.NodeStopped, OK: err == nil}
	if err != nil {
		e.Code = err.Error()
	}
	n.journal.Add(e)
}

// handleJob is the handler of package node.
func (n *testNode) handleJob(ctx context.Context, job *node.Job) (node.Result, error) {
	e := journal.Entry{Source: n.name, Job: job.ID, Attempt: job.Attempt}
	return recordAttempt(ctx, n.journal, &n.working, e, func() (node.Result, error) { return n.translate(ctx, job) })
}

// recordAttempt records the start and the end of the work on an attempt, with the number of attempts that the node works
// on.
func recordAttempt[T any](ctx context.Context, j *journal.Writer, working *atomic.Int64, e journal.Entry, work func() (T, error)) (T,
	error) {
	e.Kind, e.Held = journal.WorkStarted, int(working.Add(1))
	defer working.Add(-1)
	j.Add(e)
	result, err := work()
	e.Kind, e.Held, e.OK = journal.WorkEnded, 0, err == nil
	switch {
	case ctx.Err() != nil:
		e.Kind = journal.WorkCancelled
	case err != nil:
		e.Code = err.Error()
	}
	j.Add(e)
	return result, err
}

func (n *testNode) translate(ctx context.Context, job *node.Job) (node.Result, error) {
	audio, err := job.Audio(ctx)
	if err != nil && !errors.Is(err, node.ErrNoAudio) {
		return node.Result{}, err
	}
	r := n.rand(job)
	draw := r.Float64()
	if job.Attempt == 1 && draw < busyRate {
		return node.Result{}, node.ErrBusy
	}
	half := n.work/7 + time.Duration(r.Int64N(int64(n.work*5/7)))
	for _, stage := range []string{"asr", "nmt"} {
		if !run.Sleep(ctx, half) {
			return node.Result{}, ctx.Err()
		}
		job.Partial(node.Partial{Stage: stage})
	}
	if job.Attempt == 1 && draw < busyRate+failRate {
		return node.Result{}, node.Fail("DRILL")
	}
	origin, err := json.Marshal(resultOrigin{Node: n.name, Job: job.ID, Attempt: job.Attempt, Bytes: int64(len(audio))})
	return node.Result{TextTgt: string(origin), Speech: speechOf(job.ID, job.Attempt)}, err
}

// rand returns a source of random numbers for an attempt on a node. It depends on the seed alone. An attempt that one node
// rejected is the same attempt on the next node, and has other numbers there.
func (n *testNode) rand(job *node.Job) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d", n.name, job.ID, job.Attempt)
	return rand.New(rand.NewPCG(n.seed, h.Sum64()))
}

// resultOrigin is what a result states about its origin.
type resultOrigin struct {
	Node    string
	Job     string
	Attempt int
	Bytes   int64
}

// recordConnection records a connection.
func (n *testNode) recordConnection(conn int, from string) {
	n.journal.Add(journal.Entry{Source: n.name, Kind: journal.Connected, Conn: conn, Code: from})
}

// recordFrame records a message on the wire.
func (n *testNode) recordFrame(conn int, _ bool, text []byte) {
	kind, err := wire.TypeOf(text)
	if err != nil {
		return
	}
	var m struct {
		wire.ActiveJob
		Reason   string `json:"reason"`
		Status   string `json:"status"`
		Accepted bool   `json:"accepted"`
		Code     string `json:"error"`
		Session  string `json:"session_id"`
	}
	if json.Unmarshal(text, &m) != nil {
		return
	}
	e := journal.Entry{Source: n.name, Job: m.JobID, Attempt: m.AttemptID, Conn: conn, Slots: n.slots, Session: m.Session}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch kind {
	case wire.NodeRegisterAck{}.Type():
		e.Kind, e.Code = journal.NodeRegistered, m.Status
		n.onReady()
	case wire.JobAssign{}.Type():
		e.Kind, e.Held = journal.JobAssigned, len(n.held)
		if e.Held >= n.slots && !n.held[m.ActiveJob] {
			e.Kind = journal.JobOverAssigned
		}
		n.held[m.ActiveJob] = true
	case wire.JobAck{}.Type():
		e.Kind = journal.JobAcked
	case wire.JobReject{}.Type():
		e.Kind, e.Code = journal.JobRejected, m.Reason
		delete(n.held, m.ActiveJob)
	case wire.JobResult{}.Type(), wire.JobFail{}.Type(), wire.JobCancelled{}.Type():
		delete(n.held, m.ActiveJob)
		return // the handler has recorded it
	case wire.JobResultAck{}.Type():
		e.Kind, e.OK, e.Code = journal.ResultAcked, m.Accepted, m.Code
		delete(n.held, m.ActiveJob)
	default:
		return
	}
	n.journal.Add(e)
}
