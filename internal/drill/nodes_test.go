package drill

import (
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

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// What is wrong with the nodes: the part of first attempts that they give up or refuse after all. Further attempts work,
// so that no job ends because of it.
const faulty, busy = 0.01, 0.01

// driveNodes runs nodes until the context ends.
func driveNodes(work context.Context, o orders, j *journal, ready func()) error {
	base := &http.Transport{MaxIdleConnsPerHost: 64}
	defer base.CloseIdleConnections()
	var all, there sync.WaitGroup
	there.Add(o.Count)
	go func() {
		there.Wait()
		ready()
	}()
	errs := make([]error, o.Count)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for i := range o.Count {
		w := &worker{name: fmt.Sprintf("%s-%d", o.Name, i), seed: o.Seed, slots: o.Slots, j: j, hand: make(map[wire.ActiveJob]bool)}
		w.there = sync.OnceFunc(there.Done)
		all.Go(func() {
			defer w.there()
			errs[i] = node.Run(work, node.Config{
				URL: o.URL, ID: w.name, Slots: o.Slots, ShutdownTimeout: 10 * time.Second, Log: log.With("node_id", w.name),
				HTTPClient:  &http.Client{Transport: &tap{base: base, made: w.made, hear: w.hear}},
				Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}},
			}, w.do)
			e := entry{Who: w.name, What: left, OK: errs[i] == nil}
			if errs[i] != nil {
				e.Code = errs[i].Error()
			}
			j.note(e)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// worker is a node.
type worker struct {
	name  string
	seed  uint64
	slots int
	j     *journal
	there func()
	works atomic.Int64

	mu   sync.Mutex
	hand map[wire.ActiveJob]bool // attempts that it was given, and of which the scheduler cannot think that they are over
}

// do is its handler: it takes its time, and says who did what.
func (w *worker) do(ctx context.Context, job *node.Job) (node.Result, error) {
	e := entry{Who: w.name, Job: job.ID, Attempt: job.Attempt}
	return attempted(ctx, w.j, &w.works, e, func() (node.Result, error) { return w.work(ctx, job) })
}

// attempted notes when the work on an attempt began, beside how many others, and how it ended.
func attempted[T any](ctx context.Context, j *journal, works *atomic.Int64, e entry, work func() (T, error)) (T, error) {
	e.What, e.Held = begun, int(works.Add(1))
	defer works.Add(-1)
	j.note(e)
	result, err := work()
	e.What, e.Held, e.OK = ended, 0, err == nil
	switch {
	case ctx.Err() != nil:
		e.What = cancelled
	case err != nil:
		e.Code = err.Error()
	}
	j.note(e)
	return result, err
}

func (w *worker) work(ctx context.Context, job *node.Job) (node.Result, error) {
	audio, err := job.Audio(ctx)
	if err != nil && !errors.Is(err, node.ErrNoAudio) {
		return node.Result{}, err
	}
	dice := w.dice(job)
	fate := dice.Float64()
	if job.Attempt == 1 && fate < busy {
		return node.Result{}, node.ErrBusy
	}
	half := 50*time.Millisecond + time.Duration(dice.Int64N(int64(250*time.Millisecond)))
	for _, stage := range []string{"asr", "nmt"} {
		if !backoff.Sleep(ctx, half) {
			return node.Result{}, ctx.Err()
		}
		job.Partial(node.Partial{Stage: stage})
	}
	if job.Attempt == 1 && fate < busy+faulty {
		return node.Result{}, node.Fail("DRILL")
	}
	deed, err := json.Marshal(deed{Node: w.name, Job: job.ID, Attempt: job.Attempt, Bytes: int64(len(audio))})
	return node.Result{TextTgt: string(deed), Speech: speechOf(job.ID, job.Attempt)}, err
}

// dice fall for an attempt on a node as they did in the last drill with the same seed. An attempt that one node had no room
// for is the same attempt on the next, and may have better luck there.
func (w *worker) dice(job *node.Job) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d", w.name, job.ID, job.Attempt)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// deed is what a result says of who made it, and of what.
type deed struct {
	Node    string
	Job     string
	Attempt int
	Bytes   int64
}

// made notes a connection.
func (w *worker) made(conn int, from string) {
	w.j.note(entry{Who: w.name, What: connected, Conn: conn, Code: from})
}

// hear notes what is said on the wire.
func (w *worker) hear(conn int, _ bool, text []byte) {
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
	}
	if json.Unmarshal(text, &m) != nil {
		return
	}
	e := entry{Who: w.name, Job: m.JobID, Attempt: m.AttemptID, Conn: conn, Slots: w.slots}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kind {
	case wire.NodeRegisterAck{}.Type():
		e.What, e.Code = registered, m.Status
		w.there()
	case wire.JobAssign{}.Type():
		e.What, e.Held = assigned, len(w.hand)
		if e.Held >= w.slots && !w.hand[m.ActiveJob] {
			e.What = oversold
		}
		w.hand[m.ActiveJob] = true
	case wire.JobAck{}.Type():
		e.What = acked
	case wire.JobReject{}.Type():
		e.What, e.Code = rejected, m.Reason
		delete(w.hand, m.ActiveJob)
	case wire.JobResult{}.Type(), wire.JobFail{}.Type(), wire.JobCancelled{}.Type():
		delete(w.hand, m.ActiveJob)
		return // the handler has noted it
	case wire.JobResultAck{}.Type():
		e.What, e.OK, e.Code = taken, m.Accepted, m.Code
		delete(w.hand, m.ActiveJob)
	default:
		return
	}
	w.j.note(e)
}
