package session

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// Kinds of messages between instances about sessions. Nothing depends on their arrival: the owner of a session reads its
// outbox, the dispatcher of a job that waits for its audio checks the job, and an instance notices when it saves a session
// that the session has moved.
const (
	kindEnded       bus.Kind = "session.ended"   // a job has ended; if it has a session, its terminal message is in the outbox
	kindPartial     bus.Kind = "session.partial" // a partial result
	kindAudioWanted bus.Kind = "session.wanted"  // a job waits for its audio
	kindMoved       bus.Kind = "session.moved"   // another instance has taken the session over
)

const (
	// messageTTL and partialTTL are how long messages are worth reading.
	messageTTL = time.Minute
	partialTTL = 2 * time.Second
	// maxInlineBytes bounds the text in a message: inboxes are in Redis's memory.
	maxInlineBytes = 16 << 10
)

// endedMessage goes to the owner of the session. Without a session it goes to the instance that waits for the job's end.
type endedMessage struct {
	Session core.SessionRef `json:"session"`
	Job     core.JobID      `json:"job"`
	Turn    int64           `json:"turn"`
	Seq     int64           `json:"seq"`
	Message []byte          `json:"message,omitempty"` // as the outbox holds it; empty: it is read from there
}

// audioWantedMessage goes to the owner of the session.
type audioWantedMessage struct {
	Session core.SessionRef `json:"session"`
	Job     core.JobID      `json:"job"`
}

// movedMessage goes to the previous owner of the session.
type movedMessage struct {
	Session core.SessionRef `json:"session"`
	Epoch   int64           `json:"epoch"`
}

// Handlers returns the handlers of messages from other instances about sessions.
func (r *Registry) Handlers() map[bus.Kind]bus.Handler {
	return map[bus.Kind]bus.Handler{
		kindEnded: {Handle: bus.Decoding(r.handleEnded)},
		kindPartial: {Handle: bus.Decoding(func(_ context.Context, _ *bus.Message, p *wire.JobPartial) error {
			r.jobs.RecordPartial(core.JobID(p.JobID), p.AttemptID)
			r.DeliverPartial(p)
			return nil
		})},
		kindAudioWanted: {Handle: bus.Decoding(r.handleAudioWanted), Async: true},
		kindMoved:       {Handle: bus.Decoding(r.handleMoved)},
	}
}

// handleEnded handles the end of a job that this instance dispatched, or whose session it has: then the terminal message is in
// the session's outbox.
func (r *Registry) handleEnded(_ context.Context, _ *bus.Message, in *endedMessage) error {
	received := time.Now()
	r.jobs.EndedElsewhere(in.Job)
	s := r.session(in.Session)
	if s == nil {
		return nil
	}
	var m *terminalMessage
	if len(in.Message) > 0 {
		var err error
		if m, err = decodeTerminalMessage(in.Message); err != nil {
			return err
		}
	}
	s.outbox.messageAppended(in.Turn, in.Seq, m, received)
	return nil
}

// handleAudioWanted resumes a job whose audio is here.
func (r *Registry) handleAudioWanted(ctx context.Context, _ *bus.Message, in *audioWantedMessage) error {
	if r.audio.Clip(in.Job) == nil {
		return nil // the job is resumed when the client has sent the audio again
	}
	_, err := r.jobs.ResumeWithAudio(ctx, in.Job)
	return err
}

// handleMoved ends a session here that another instance has taken over.
func (r *Registry) handleMoved(_ context.Context, _ *bus.Message, in *movedMessage) error {
	if s := r.session(in.Session); s != nil && s.ownership.Epoch < in.Epoch {
		s.supersede()
	}
	return nil
}

// notify sends a message to another instance. If that fails, the instance notices the change by itself.
func (d *Directory) notify(ctx context.Context, to core.InstanceID, kind bus.Kind, ttl time.Duration, body any) {
	if d.bus == nil || to == "" || to == d.cfg.Instance {
		return
	}
	if err := d.bus.Send(ctx, to, kind, ttl, body); err != nil {
		d.log.Debug("a message to another instance was not sent", "kind", string(kind), "instance", to, "error", err)
	}
}

// AudioWanted implements dispatch.Outcomes: it asks the owner of the session to resume a job if it has the audio.
func (d *Directory) AudioWanted(ctx context.Context, job *core.Job) {
	stored, err := d.store.LoadSession(ctx, job.SessionRef().SessionKey)
	if err == nil && stored.Incarnation == job.Incarnation {
		d.notify(ctx, stored.Owner, kindAudioWanted, messageTTL, audioWantedMessage{job.SessionRef(), job.ID})
	}
}

// NotifyEnded implements dispatch.Outcomes: it reports the end of a job without a session to the instance that waits for it.
func (d *Directory) NotifyEnded(ctx context.Context, at core.InstanceID, job core.JobID) {
	d.notify(ctx, at, kindEnded, messageTTL, endedMessage{Job: job})
}

// SendPartial sends a partial result to the instance that dispatched the job.
func (d *Directory) SendPartial(ctx context.Context, to core.InstanceID, p *wire.JobPartial) {
	if len(p.TextSrc)+len(p.TextTgt) <= maxInlineBytes {
		d.notify(ctx, to, kindPartial, partialTTL, p)
	}
}

var _ dispatch.Outcomes = (*Directory)(nil)
