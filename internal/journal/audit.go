package journal

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Stderr is the output that is the standard error of the process. Every other output is the path of a file.
const Stderr = "stderr"

// AuditOptions configures a Recorder.
type AuditOptions struct {
	Instance core.InstanceID
	// Output is where entries are written beside the store: empty (nowhere), Stderr or a path.
	Output string
	// Dropped counts entries that were never written, by the log that lacks them: file or store.
	Dropped *prometheus.CounterVec
	Log     *slog.Logger
}

// Audit records the entries of one instance. A nil Audit records nothing.
type Audit struct {
	instance core.InstanceID
	stored   *queue[store.AuditEntry]
	written  *queue[store.AuditEntry] // nil without an output
	out      *output                  // nil without an output
	denials  *denialLimiter
}

// NewAudit opens the output and makes a recorder. Entries are queued until Run writes them.
func NewAudit(o AuditOptions) (*Audit, error) {
	r := &Audit{
		instance: o.Instance, denials: newDenialLimiter(),
		stored: newQueue[store.AuditEntry]("audit", o.Dropped.WithLabelValues("store"), o.Log),
	}
	if o.Output != "" {
		out, err := openOutput(o.Output, o.Log)
		if err != nil {
			return nil, err
		}
		r.out, r.written = out, newQueue[store.AuditEntry]("audit file", o.Dropped.WithLabelValues("file"), o.Log)
	}
	return r, nil
}

// Record records an entry about something that has just happened. It never waits. Of the denials of one address, and of the failures of
// one key, only some are recorded; the next such entry has the number of those that were not.
func (r *Audit) Record(e store.AuditEntry) {
	if r == nil {
		return
	}
	now := time.Now()
	if e.Outcome != store.AuditOK {
		suppressed, idle, ok := r.denials.allow(sourceOf(&e), now)
		r.recordSuppressed(idle, now)
		if !ok {
			return
		}
		e.Suppressed = suppressed
	}
	r.add(&e, now)
}

func (r *Audit) add(e *store.AuditEntry, now time.Time) {
	e.At, e.Instance = now.UTC().Truncate(time.Millisecond), r.instance
	r.stored.Add(*e)
	if r.written != nil {
		r.written.Add(*e)
	}
}

// The action and the reason of an entry that only says how many denials of an address were not recorded.
const (
	ActionDenials    = "denials"
	ReasonSuppressed = "suppressed"
)

// maxSummaries is of how many sources at once it is recorded how many denials were left out; of more, the sum is.
const maxSummaries = 20

// recordSuppressed records how many denials were left out of sources that have stopped, or that are not followed any more.
func (r *Audit) recordSuppressed(idle []suppressedDenials, now time.Time) {
	if len(idle) > maxSummaries {
		sum := 0
		for _, s := range idle {
			sum += s.count
		}
		idle = []suppressedDenials{{count: sum}}
	}
	for _, s := range idle {
		e := store.AuditEntry{Action: ActionDenials, Outcome: store.AuditDenied, Reason: ReasonSuppressed, Key: s.key, Suppressed: s.count}
		if s.address.IsValid() {
			e.Address = s.address.String()
		}
		r.add(&e, now)
	}
}

// Reopen opens the file again, after it was renamed by a log rotation. If that fails, the open file stays in use.
func (r *Audit) Reopen() error {
	if r.out == nil {
		return nil
	}
	return r.out.reopen()
}

// sweepInterval is how often addresses that have stopped are looked for.
const sweepInterval = 10 * time.Second

// Run writes entries until the context ends, and then once more what is queued. While the store does not answer or the file cannot be
// written, entries wait.
func (r *Audit) Run(ctx context.Context, st store.Logs) {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writers sync.WaitGroup
	writers.Go(func() { r.stored.Run(writing, AuditLog(st).Append) })
	if r.written != nil {
		writers.Go(func() { r.written.Run(writing, r.out.write) })
	}
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case now := <-sweep.C:
			r.recordSuppressed(r.denials.sweep(now), now)
		}
	}
	r.recordSuppressed(r.denials.takeAll(), time.Now())
	stop()
	writers.Wait()
	if r.out != nil {
		r.out.close()
	}
}

// AddressOf returns the address of a peer without its port, as entries have it; empty if there is none.
func AddressOf(remote string) string {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	return peer.Addr().Unmap().WithZone("").String()
}
