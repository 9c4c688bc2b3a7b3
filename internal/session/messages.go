package session

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// What instances tell each other about sessions. None of it has to arrive: an outbox is read by whoever has the session,
// a job that waits for its sound is looked at by whoever dispatched it, and a session that moved is noticed when it is
// saved.
const (
	kindEnded   bus.Kind = "session.ended"   // a job has ended; of a session's, a terminal message is in the outbox
	kindPartial bus.Kind = "session.partial" // what a node has so far
	kindWanted  bus.Kind = "session.wanted"  // a job waits for its sound
	kindMoved   bus.Kind = "session.moved"   // the session is another's by now
)

// How long such a letter is worth reading, and how much of what was said it may hold: inboxes are in Redis's memory.
const (
	tellFor     = time.Minute // that a job has ended, that one waits for its sound, and where a session is
	partialFor  = 2 * time.Second
	mostWritten = 16 << 10
)

// endedLetter goes to whoever has the session, and without a session to whoever sees a job through that has none.
type endedLetter struct {
	Session core.SessionRef `json:"session"`
	Job     core.JobID      `json:"job"`
	Turn    int64           `json:"turn"`
	Seq     int64           `json:"seq"`
	Message []byte          `json:"message,omitempty"` // as the outbox holds it
}

type wantedLetter struct {
	Session core.SessionRef `json:"session"`
	Job     core.JobID      `json:"job"`
}

type movedLetter struct {
	Session core.SessionRef `json:"session"`
	Epoch   int64           `json:"epoch"`
}

// Handlers handle the messages of other instances about sessions.
func (r *Registry) Handlers() map[bus.Kind]bus.Handler {
	return map[bus.Kind]bus.Handler{
		kindEnded: {Handle: bus.Decoding(r.endedElsewhere)},
		kindPartial: {Handle: bus.Decoding(func(_ context.Context, _ *bus.Message, p *wire.JobPartial) error {
			r.Partial(p)
			return nil
		})},
		kindWanted: {Handle: bus.Decoding(r.wantedElsewhere), Async: true},
		kindMoved:  {Handle: bus.Decoding(r.movedElsewhere)},
	}
}

// write tells another instance something about a session. If it is not there, or nobody can say, it finds out by itself.
func (d *Directory) write(ctx context.Context, to core.InstanceID, kind bus.Kind, ttl time.Duration, body any) {
	if d.bus == nil || to == "" || to == d.cfg.Instance {
		return
	}
	if err := d.bus.Send(ctx, to, kind, ttl, body); err != nil {
		d.log.Debug("another instance was not told", "kind", string(kind), "instance", to, "error", err)
	}
}

// endedElsewhere takes in that a job has ended which is seen through here, or whose session is here: then a terminal
// message is in the session's outbox.
func (r *Registry) endedElsewhere(_ context.Context, _ *bus.Message, l *endedLetter) error {
	r.jobs.EndedElsewhere(l.Job)
	s := r.session(l.Session)
	if s == nil {
		return nil
	}
	var e *envelope // what does not come with it is read from the outbox
	if len(l.Message) > 0 {
		var err error
		if e, err = openEnvelope(l.Message); err != nil {
			return err
		}
	}
	s.appended(l.Turn, l.Seq, e)
	return nil
}

// Wanted implements dispatch.Outcomes: it asks whoever has the session to go on with a job, if the sound is there.
func (d *Directory) AudioWanted(ctx context.Context, job *core.Job) {
	st, err := d.store.LoadSession(ctx, job.SessionRef().SessionKey)
	if err == nil && st.Incarnation == job.Incarnation {
		d.write(ctx, st.Owner, kindWanted, tellFor, wantedLetter{job.SessionRef(), job.ID})
	}
}

// Over implements dispatch.Outcomes: it tells the instance that sees a job without a session through.
func (d *Directory) NotifyEnded(ctx context.Context, at core.InstanceID, job core.JobID) {
	d.write(ctx, at, kindEnded, tellFor, endedLetter{Job: job})
}

// wantedElsewhere goes on with a job whose sound is here.
func (r *Registry) wantedElsewhere(ctx context.Context, _ *bus.Message, l *wantedLetter) error {
	if r.audio.Clip(l.Job) == nil {
		return nil // when the speaker sends it again, that goes on with the job
	}
	_, err := r.jobs.ResumeWithAudio(ctx, l.Job)
	return err
}

// movedElsewhere lets go of a session that goes on elsewhere.
func (r *Registry) movedElsewhere(_ context.Context, _ *bus.Message, l *movedLetter) error {
	if s := r.session(l.Session); s != nil && s.claim.Epoch < l.Epoch {
		s.superseded()
	}
	return nil
}

// PartialTo passes on what a node has so far to the instance that gave it the job.
func (d *Directory) PartialTo(ctx context.Context, to core.InstanceID, p *wire.JobPartial) {
	if len(p.TextSrc)+len(p.TextTgt) <= mostWritten {
		d.write(ctx, to, kindPartial, partialFor, p)
	}
}

var _ dispatch.Outcomes = (*Directory)(nil)
