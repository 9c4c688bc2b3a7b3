package session

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// observePath counts a step of an utterance through this instance if it took too long, and logs it. The log limits how often.
func (d *Directory) observePath(p telemetry.SessionPath, session core.SessionID, job core.JobID, took time.Duration) {
	if took <= d.cfg.SlowAfter {
		return
	}
	d.metrics.CountSlow(p)
	d.log.Warn("slow session path", "path", string(p), "session_id", session, "job_id", job, "took_ms", took.Milliseconds())
}

// observeCommit measures from the moment at which the open utterance was due to end, to its commit.
func (in *intake) observeCommit(u *utterance) {
	if !in.due.IsZero() {
		in.session.registry.observePath(telemetry.PathSegment, in.session.ref.Name, u.job, u.committedAt.Sub(in.due))
	}
}

// observePlaced measures from the commit of an utterance, or from the placement of the one before it, to its own. The time that it waited
// for a free slot does not count.
func (u *utterance) observePlaced(afterPrevious time.Time, waited time.Duration) {
	if u.restored {
		return // it was committed on another instance
	}
	since := u.committedAt
	if afterPrevious.After(since) {
		since = afterPrevious
	}
	u.session.registry.observePath(telemetry.PathDispatch, u.session.ref.Name, u.job, time.Since(since)-waited)
}

// observeSent measures from the arrival of a result to its message to the client. A result that waited for an earlier one, or for the
// client, is not measured.
func (u *utterance) observeSent() {
	if !u.result.received.IsZero() {
		u.session.registry.observePath(telemetry.PathResult, u.session.ref.Name, u.job, time.Since(u.result.received))
	}
}
