package session

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// lag has the parts of a result's lag behind its speaker that are known when the result is stored, in milliseconds. Each is a duration on
// one clock: segmentation and wait on that of the instance that committed the utterance, the others on that of the store.
type lag struct {
	SegmentationMS int64 `json:"s,omitempty"`
	WaitMS         int64 `json:"w,omitempty"`
	DispatchMS     int64 `json:"d,omitempty"`
	NodeMS         int64 `json:"n,omitempty"`
}

// lagOf returns the parts of a job that is done.
func lagOf(job *core.Job) lag {
	started := job.History[len(job.History)-1].Started
	dispatch := started.Sub(job.Created).Milliseconds()
	return lag{
		SegmentationMS: job.Utterance.SegmentationMS, WaitMS: job.Utterance.WaitMS,
		DispatchMS: dispatch, NodeMS: job.Updated.Sub(job.Created).Milliseconds() - dispatch,
	}
}

// sent returns all parts of the lag of a result that is sent some time after its utterance was committed. What is in no other part is the
// return, so that the parts add up.
func (l *lag) sent(sinceCommit time.Duration) telemetry.Lag {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	parts := telemetry.Lag{Segmentation: ms(l.SegmentationMS), Wait: ms(l.WaitMS), Dispatch: ms(l.DispatchMS), Node: ms(l.NodeMS)}
	parts.Return = max(0, sinceCommit-parts.Wait-parts.Dispatch-parts.Node)
	return parts
}
