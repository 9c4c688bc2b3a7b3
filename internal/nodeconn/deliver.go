package nodeconn

import (
	"context"
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// Deliver implements dispatch.Transport: over the node's connection if it is connected here, else by its callback URL, else
// through the instance to which it is connected.
func (c *Conns) Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error {
	n := c.await(ctx, to.ID, core.Epoch(a.Epoch))
	if n != nil && n.currentEpoch() != core.Epoch(a.Epoch) && to.Owner != c.Bus.Instance() {
		n = nil // the node has connected elsewhere, and this connection is half open
	}
	if n == nil {
		at, err := c.withAudioURL(a)
		switch {
		case err != nil:
			return err
		case to.Callback != "":
			return c.HTTP.Deliver(ctx, to, at)
		}
		return c.deliverRemote(ctx, to.Owner, at)
	}
	if n.currentEpoch() != core.Epoch(a.Epoch) {
		return dispatch.ErrRefused
	}
	assign := jobAssign(a)
	send := func() bool { return n.ws.Send(assign) }
	if audio.IsSession(a.AudioRef) {
		clip := c.Audio.Clip(core.JobID(a.JobID))
		if clip == nil {
			return dispatch.ErrNoAudio
		}
		assign.Partials = clip.Partials
		assign.Audio = &wire.Audio{AudioFormat: clip.Format, Bytes: int64(len(clip.Data)), DurationMS: clip.DurationMS}
		send = func() bool {
			return n.ws.SendWith(assign, clip.Frames(wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}, 0))
		}
	}
	if run.Expired(ctx) {
		return fmt.Errorf("%w: its reservation was too old to send it", dispatch.ErrRefused)
	}
	n.recordSent(&assign)
	if !send() {
		n.recordEnd(wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID})
		return dispatch.ErrRefused
	}
	return nil
}

// withAudioURL is an assignment for a node that fetches the audio itself.
func (c *Conns) withAudioURL(a *wire.Assignment) (*wire.Assignment, error) {
	if !audio.IsSession(a.AudioRef) {
		return a, nil
	}
	clip := c.Audio.Clip(core.JobID(a.JobID))
	if clip == nil {
		return nil, dispatch.ErrNoAudio
	}
	file, err := clip.File(core.JobID(a.JobID))
	if err != nil {
		return nil, err
	}
	base, at := c.Address(), *a
	at.AudioRef = c.URLs.Fetch(base, a)
	at.Audio = &wire.Audio{AudioFormat: clip.Format, Bytes: int64(len(file)), DurationMS: clip.DurationMS}
	if clip.PacketEnds != nil {
		at.Audio.Container = wire.ContainerOgg
	}
	if clip.Speech {
		at.TTSUpload = c.URLs.Upload(base, a)
	}
	return &at, nil
}

// jobAssign is the message that gives a job to a node, without its audio.
func jobAssign(a *wire.Assignment) wire.JobAssign {
	assign := wire.JobAssign{
		JobID: a.JobID, AttemptID: a.AttemptID, SessionID: a.SessionID, SrcLang: a.SrcLang, TgtLang: a.TgtLang,
		Options: a.Options, DeadlineMS: a.DeadlineMS, TimeoutMS: a.TimeoutMS,
		Traceparent: a.Traceparent, Probe: a.Probe,
	}
	if a.Audio == nil && a.AudioRef != "" {
		assign.Audio = &wire.Audio{Ref: a.AudioRef}
	}
	if a.Probe {
		assign.Audio.AudioFormat, assign.Audio.DurationMS = wire.ProbeAudioFormat, wire.ProbeAudioMS
	}
	return assign
}

// Cancel implements dispatch.Transport.
func (c *Conns) Cancel(ctx context.Context, to core.NodeID, job core.JobID, attempt int) {
	active := wire.ActiveJob{JobID: string(job), AttemptID: attempt}
	if n := c.get(to); n != nil {
		n.ws.Send(wire.JobCancel{ActiveJob: active})
		return
	}
	if c.cancelRemote(ctx, to, active) {
		return
	}
	c.HTTP.Cancel(ctx, to, job, attempt)
}

// Drain notifies a node, if it is connected to this instance, that it was drained or resumed.
func (c *Conns) Drain(id core.NodeID, drained bool) {
	if n := c.get(id); n != nil {
		n.ws.Send(wire.Drain{Drained: drained})
	}
}
