package dispatch

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/deadline"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Config is how jobs are treated.
type Config struct {
	Instance core.InstanceID // this incarnation of this scheduler

	DecideWithin   time.Duration // a dispatch is recorded or refused within this
	ACKTimeout     time.Duration // a delivered job is confirmed within this
	AttemptTimeout time.Duration // an attempt brings a result within this
	JobTimeout     time.Duration // a job ends within this
	MaxRetry       int           // how often a job is given to another node
	AudioGrace     time.Duration // a job whose sound was lost waits for it this long
	SpreadWindow   time.Duration // a session's utterances avoid its last node for this long; 0: they do not
	// Hears reports whether the sound of a job can be had from here: whoever cannot give it to a node leaves the job to
	// whoever can. Nil: it can always be had.
	HasAudio func(job *core.Job) bool
	// Fence is until when this instance may grant; nil: it is alone.
	Fence func() time.Time
}

// Store is what a dispatcher needs of the store.
type Store interface {
	store.NodeReader
	store.Ledger
	store.LeaseReader
	store.Jobs
}

// Dispatcher sees jobs through. Make one with New and end it with Drain and Close.
type Dispatcher struct {
	cfg       Config
	store     Store
	fleet     *fleet.Fleet
	picker    *pick.Picker
	transport Transport
	outcomes  Outcomes
	metrics   *telemetry.Metrics
	log       *slog.Logger

	decide   *deadline.Limit // a decision is made within it
	deliver  *deadline.Limit // a delivery is answered within it
	calls    calls
	flights  flights
	spread   spread
	looks    looks
	waiters  waiters
	tokens   atomic.Uint64
	doubtful sync.Map     // jobs whose record may have been written although their caller was refused
	failed   atomic.Int64 // when the store last did not answer, Unix nanoseconds

	leaving  atomic.Bool     // no new requests are taken but those of conversations that are here
	draining atomic.Bool     // nothing is granted any more
	left     atomic.Bool     // a job was left to whoever takes it over
	life     context.Context // ends with Close
	end      context.CancelFunc
	work     sync.WaitGroup
	closing  sync.RWMutex // held for writing while the work is closed
	closed   bool
}

// New makes a dispatcher. It starts nothing by itself. Outcomes may be nil where there are no sessions.
func New(cfg Config, st Store, fl *fleet.Fleet, pk *pick.Picker, tr Transport, o Outcomes, m *telemetry.Metrics, log *slog.Logger) *Dispatcher {
	d := &Dispatcher{cfg: cfg, store: st, fleet: fl, picker: pk, transport: tr, outcomes: o, metrics: m, log: log}
	d.life, d.end = context.WithCancel(context.Background()) //nolint:forbidigo // jobs outlive the requests that made them
	d.decide = deadline.New(d.life, cfg.DecideWithin, cfg.Fence)
	d.deliver = deadline.New(d.life, cfg.ACKTimeout, nil)
	if d.cfg.HasAudio == nil {
		d.cfg.HasAudio = func(*core.Job) bool { return true }
	}
	d.calls.init()
	d.flights.init()
	d.spread.init(cfg.SpreadWindow)
	d.waiters.init()
	d.looks.init(
		func(fn func()) { d.background(func(context.Context) { fn() }) },
		func(nodes []core.NodeID, into []store.Occupancy) error {
			err := d.store.Probe(d.decide.Context(), nodes, into)
			if err != nil {
				d.storeFailed("probe", err)
			}
			return err
		})
	return d
}

// token makes a name for one reservation.
func (d *Dispatcher) token() core.Token {
	buf := make([]byte, 0, len(d.cfg.Instance)+14)
	buf = append(buf, d.cfg.Instance...)
	buf = append(buf, '.')
	return core.Token(strconv.AppendUint(buf, d.tokens.Add(1), 36))
}

// mine reports whether a job's record names this instance as the one that sees it through.
func (d *Dispatcher) mine(job *core.Job) bool {
	token := job.Token
	if job.State == core.StateRetrying {
		token = job.Owner
	}
	prefix := core.Token(d.cfg.Instance) + "."
	return len(token) > len(prefix) && token[:len(prefix)] == prefix
}

// Settled lets go of a job that has ended elsewhere. Of a conversation's job, its node is believed to have a free slot
// more, or the nodes of other instances would seem fuller than our own; of others it is not, because at a high load every
// instance would then run for the same slot.
func (d *Dispatcher) EndedElsewhere(id core.JobID) {
	f := d.flights.get(id)
	if f == nil {
		return
	}
	job := f.snapshot()
	if n := d.fleet.Node(job.Node); n != nil && job.Utterance.Turn > 0 {
		d.fleet.ObserveRelease(n)
	}
	d.flights.remove(id)
}

// dispatcherOf is the instance that gave a job to its node.
func dispatcherOf(job *core.Job) core.InstanceID {
	at := strings.LastIndexByte(string(job.Token), '.')
	return core.InstanceID(job.Token[:max(at, 0)])
}

// Left reports whether jobs are left to the others: those that did not end, and those that were handed back.
func (d *Dispatcher) HasUnfinishedJobs() bool { return d.left.Load() || d.flights.len() > 0 }

// background runs fn beside the caller, unless the dispatcher is closed. The context ends with Close.
func (d *Dispatcher) background(fn func(ctx context.Context)) {
	d.closing.RLock()
	defer d.closing.RUnlock()
	if !d.closed {
		d.work.Go(func() { fn(d.life) })
	}
}

// InFlight is how many jobs this instance is seeing through.
func (d *Dispatcher) InFlight() int { return d.flights.len() }

// InFlightByDirection counts them.
func (d *Dispatcher) InFlightByDirection() map[core.Direction]int { return d.flights.byDirection() }

// Leave refuses new requests, but not the utterances of conversations that are still connected here.
func (d *Dispatcher) Leave() { d.leaving.Store(true) }

// Drain stops granting and waits until every job this instance sees through has ended, or the context ends.
// It returns how many are left.
func (d *Dispatcher) Drain(ctx context.Context) int {
	d.draining.Store(true)
	for {
		empty := d.flights.emptied()
		if d.flights.len() == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return d.flights.len()
		case <-empty:
		}
	}
}

// Close stops every timer and waits for what runs in the background. Jobs that have not ended stay as the
// store has them: another instance finds them through the lease sets.
func (d *Dispatcher) Close() {
	d.draining.Store(true)
	d.closing.Lock()
	d.closed = true
	d.closing.Unlock()
	d.flights.stop()
	d.end()
	d.work.Wait()
}
