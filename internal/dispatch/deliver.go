package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// deliver hands the job to the node that holds it.
func (j *journey) deliver() error {
	n := j.d.fleet.Node(j.job.Node)
	if n == nil {
		return ErrRefused // it left between the reservation and now; nothing was sent
	}
	o := &j.job.Options
	timeout := min(j.d.cfg.AttemptTimeout, time.Until(j.f.deadline))
	a := &wire.Assignment{
		JobID: string(j.job.ID), AttemptID: j.job.Attempt, NodeID: string(j.job.Node), Epoch: int64(j.job.Epoch),
		SessionID: string(j.job.Session), SrcLang: string(j.job.Direction.Src), TgtLang: string(j.job.Direction.Tgt),
		AudioRef: j.job.AudioRef,
		Options: wire.DispatchOptions{
			RequireTTS: o.RequireTTS, RequiredServices: o.RequiredServices, RequiredModels: o.RequiredModels,
			Features: o.Features, Region: o.Region,
		},
		DeadlineMS: time.Now().Add(timeout).UnixMilli(), TimeoutMS: timeout.Milliseconds(),
	}
	ctx, cancel := j.deliveryContext()
	defer cancel()
	err := ErrRefused // nothing was sent
	if !Expired(ctx) {
		err = j.d.transport.Deliver(ctx, n.Now(), a)
	}
	if err == nil {
		j.d.metrics.Delivered()
		return nil
	}
	result := "unknown"
	switch {
	case errors.Is(err, ErrBusy):
		result = "busy"
	case errors.Is(err, ErrRefused):
		result = "refused"
	}
	j.d.metrics.Deliveries.WithLabelValues(result).Inc()
	j.d.log.Info("delivery failed", "job_id", j.job.ID, "node_id", j.job.Node, "attempt_id", j.job.Attempt, "result", result, "error", err)
	return err
}

// deliveryContext ends when the node has not answered in time, and before the reservation is so old that the lease may have
// been given up: this process may have been stopped since.
func (j *journey) deliveryContext() (context.Context, context.CancelFunc) {
	ctx := j.d.deliver.Context()
	until := j.asked.Add(j.d.cfg.DeliverWithin)
	if ends, ok := ctx.Deadline(); j.d.cfg.DeliverWithin == 0 || ok && !until.Before(ends) {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, until)
}

// delivered waits for the node's word from now on.
func (j *journey) delivered() {
	j.d.spread.note(j.job.SessionRef(), j.job.Node)
	j.d.metrics.Selected()
	j.f.wait(j.job.Token, phaseACK, time.Now().Add(j.d.cfg.ACKTimeout), j.d.dueFunc(j.f))
}

// confirmed waits, after a delivery that may have arrived, for the rest of the time in which the node would
// have confirmed it, and reports whether it did.
func (j *journey) confirmed(ctx context.Context, began time.Time) bool {
	if left := time.Until(began.Add(j.d.cfg.ACKTimeout)); left > 0 {
		backoff.Sleep(ctx, left)
	}
	leases, err := j.d.store.Leases(ctx, leaseOf(j.job))
	return err == nil && leases[0].State == core.LeaseRunning
}
