package server

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// viewTestJob is the outcome of a probe as the API shows it. What the node answered is not shown.
func viewTestJob(o *dispatch.TestJobOutcome) *wire.ProbeResult {
	j := o.Job
	out := &wire.ProbeResult{
		NodeID: string(j.Node), OK: j.State == core.StateDone, JobID: string(j.ID), State: j.State.String(), Reason: string(j.Reason),
		Detail:  j.Detail,
		SrcLang: string(j.Direction.Src), TgtLang: string(j.Direction.Tgt), StartedMS: o.Started.UnixMilli(),
		ResultWithheld: len(j.Result) > 0,
	}
	before := o.Started
	stage := func(into **int64, at time.Time) {
		if at.IsZero() {
			return
		}
		ms := max(0, at.Sub(before).Milliseconds()) // a node may answer before its delivery has returned
		*into = &ms
		if at.After(before) {
			before = at
		}
	}
	stage(&out.ReserveMS, o.Recorded)
	stage(&out.DeliverMS, o.Delivered)
	stage(&out.AckMS, o.Acknowledged)
	if !o.Delivered.IsZero() {
		stage(&out.ResultMS, o.Ended)
	}
	out.TotalMS = max(before.Sub(o.Started), o.Ended.Sub(o.Started)).Milliseconds()
	return out
}
