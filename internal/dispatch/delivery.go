package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Transport delivers jobs to nodes.
type Transport interface {
	// Deliver sends a job to a node. ErrRefused, ErrBusy and ErrNoAudio mean that the node certainly does not have the job;
	// after any other error it may have it. Nothing is sent after the deadline of the context.
	Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error
	// Cancel asks a node to stop a job, if the node can be reached at once. Its next heartbeat reports the cancel anyway.
	Cancel(ctx context.Context, to core.NodeID, job core.JobID, attempt int)
}

var (
	// ErrRefused means that the node does not have the job and does not take it.
	ErrRefused = errors.New("the node refused the job")
	// ErrNoAudio means that the audio of the job is not on this instance, so no node can process it.
	ErrNoAudio = errors.New("the audio of the job is not here")
	// ErrBusy means that the node has no free slot by its own count, which has the last word.
	ErrBusy = errors.New("the node is busy")
)

// deliver sends the job to the node that holds it.
func (j *jobRun) deliver() error {
	n := j.runner.fleet.Node(j.job.Node)
	if n == nil {
		return ErrRefused // it was removed after the reservation; nothing was sent
	}
	timeout := min(j.runner.cfg.AttemptTimeout, time.Until(j.entry.deadline))
	a := &wire.Assignment{
		JobID: string(j.job.ID), AttemptID: j.job.Attempt, NodeID: string(j.job.Node), Epoch: int64(j.job.Epoch),
		SessionID: string(j.job.Session), SrcLang: string(j.job.Direction.Src), TgtLang: string(j.job.Direction.Tgt),
		AudioRef: j.job.AudioRef, Options: j.job.Options.ForNode(),
		DeadlineMS: time.Now().Add(timeout).UnixMilli(), TimeoutMS: timeout.Milliseconds(), Traceparent: j.trace.Traceparent(j.job.Token),
		Probe: j.job.TestJob,
	}
	if a.Probe {
		a.AudioRef = wire.ProbeAudio
	}
	began := time.Now()
	ctx, cancel := j.deliveryContext()
	defer cancel()
	err := ErrRefused // nothing was sent
	if !run.Expired(ctx) {
		err = j.runner.transport.Deliver(ctx, n.Declared(), a)
	}
	result := deliveryResult(err)
	if j.trace.Sampled() {
		j.traceDelivery(began, n.Declared(), result)
	}
	switch {
	case j.job.TestJob: // it is not counted
	case err == nil:
		j.runner.metrics.CountDelivery()
	default:
		j.runner.metrics.Deliveries.WithLabelValues(result).Inc()
	}
	if err == nil {
		return nil
	}
	j.runner.log.Info("delivery failed", "job_id", j.job.ID, "node_id", j.job.Node, "attempt_id", j.job.Attempt, "result", result, "error",
		err)
	return err
}

// deliveredResult is the result of a delivery that succeeded.
const deliveredResult = "delivered"

// deliveryResult names the result of a delivery, for metrics and traces.
func deliveryResult(err error) string {
	switch {
	case err == nil:
		return deliveredResult
	case errors.Is(err, ErrBusy):
		return telemetry.DeliveryBusy
	case errors.Is(err, ErrRefused):
		return telemetry.DeliveryRefused
	}
	return telemetry.DeliveryUnknown
}

// deliveryContext ends with the ACK timeout, and before the reservation is so old that the lease may have been given up: this
// process may have been suspended since.
func (j *jobRun) deliveryContext() (context.Context, context.CancelFunc) {
	ctx := j.runner.deliver.Context()
	until := j.reservedAt.Add(j.runner.cfg.DeliverWithin)
	if ends, ok := ctx.Deadline(); j.runner.cfg.DeliverWithin == 0 || ok && !until.Before(ends) {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, until)
}

// awaitACK arms the ACK timeout of a delivered job.
func (j *jobRun) awaitACK() {
	if !j.job.TestJob {
		j.runner.spread.delivered(j.runner.deliver.Context(), j.job)
		j.runner.metrics.CountSelection()
	}
	j.entry.arm(j.job.Token, phaseACK, time.Now().Add(j.runner.cfg.ACKTimeout), j.runner.timerFunc(j.entry))
}

// acknowledgedAnyway waits for the rest of the ACK timeout after a delivery that failed but may have arrived, and reports
// whether the node has acknowledged it.
func (j *jobRun) acknowledgedAnyway(ctx context.Context, began time.Time) bool {
	if left := time.Until(began.Add(j.runner.cfg.ACKTimeout)); left > 0 {
		run.Sleep(ctx, left)
	}
	leases, err := j.runner.store.Leases(ctx, leaseOf(j.job))
	return err == nil && leases[0].State == core.LeaseRunning
}
