package dispatch

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// PreviousJob is where the job before a request's ran, within the same session.
type PreviousJob struct {
	Node core.NodeID // empty: there was none
	Pool core.PoolID // the capability pool of the session; empty: none
	At   time.Time   // when the node was given the job
}

// spreader makes successive jobs of a session avoid the node of the last one, if that is configured. A session over a WebSocket keeps
// its last node in its state and passes it with each request; for sessions that HTTP requests name, it is in the store.
type spreader struct {
	window time.Duration // for how long the last node is avoided; 0: it is not
	store  *storeClient
}

// prepare sets the node that the request's job avoids, and returns the node of the session's job before it, if it is known.
func (s *spreader) prepare(ctx context.Context, r *Request) (previous core.NodeID) {
	previous = r.Previous.Node
	avoid := time.Since(r.Previous.At) < s.window
	if s.isStored(&r.Spec) {
		var err error
		if previous, err = s.readLastNode(ctx, &r.Spec); err != nil {
			s.store.RecordError("last_node", err) // the job is not spread; the reservation shows whether the store is available
		}
		avoid = true // it expires in the store
	}
	if avoid {
		r.LastNode = previous
	}
	return previous
}

// delivered records the node of a job that was delivered, if the session's last node is in the store.
func (s *spreader) delivered(ctx context.Context, job *core.Job) {
	if !s.isStored(&job.Spec) {
		return
	}
	if _, err := s.store.WriteValue(ctx, store.WriteValueParams{
		Key: lastNodeKey(&job.Spec), Parts: map[string][]byte{store.BodyPart: []byte(job.Node)}, TTL: s.window,
	}); err != nil {
		s.store.RecordError("last_node", err)
	}
}

// lastNodeKey is where the store has the last node of a job's session.
func lastNodeKey(spec *core.Spec) store.ValueKey {
	return store.ValueKey{Kind: store.LastNodeValue, Name: spec.SessionRef().SessionKey.String()}
}

// readLastNode reads the last node of a job's session; empty: there is none, or that was long ago.
func (s *spreader) readLastNode(ctx context.Context, spec *core.Spec) (core.NodeID, error) {
	last, err := store.ReadValue(ctx, s.store, store.ValueQuery{Key: lastNodeKey(spec)})
	return core.NodeID(last.Parts[store.BodyPart]), err
}

// lastNode returns the node that a request would avoid, as far as the store knows it.
func (s *spreader) lastNode(ctx context.Context, spec *core.Spec) core.NodeID {
	r := Request{Spec: *spec}
	s.prepare(ctx, &r)
	return r.LastNode
}

// isStored reports whether the last node of a job's session is in the store.
func (s *spreader) isStored(spec *core.Spec) bool {
	return s.window > 0 && spec.Utterance.Turn == 0 && spec.Session != "" && !spec.TestJob
}
