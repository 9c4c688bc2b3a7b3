package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/wire"
)

// manyLetters is how many dead letters are listed, replayed or purged at once.
const manyLetters = 1000

// storeAway is the answer when the store does not.
func (s *Server) storeAway(operation string, err error) *wire.Error {
	s.Log.Warn("the store did not answer", "operation", operation, "error", err)
	return wire.Errorf(wire.SchedulerDependencyDown, "the shared store does not answer: try again").RetryIn(time.Second)
}

// instances lists the schedulers that share the fleet.
func (s *Server) instances(r *http.Request) (any, error) {
	for name := range r.URL.Query() {
		return nil, wire.Invalid(name, "is not known; this list cannot be narrowed")
	}
	peers, err := s.Bus.Peers(r.Context())
	if err != nil {
		return nil, s.storeAway("instances", err)
	}
	list := wire.InstanceList{Instances: make([]wire.Instance, len(peers))}
	for i, p := range peers {
		list.Instances[i] = wire.Instance{
			InstanceID: p.Name, Incarnation: string(p.ID), Present: p.Present, This: p.This, Draining: p.Draining, AdvertiseURL: p.URL,
			Version: p.Version, StartedMS: p.Started, Nodes: p.Nodes, Sessions: p.Sessions, Jobs: p.Jobs,
			Inbox: p.Inbox, Pending: p.Pending, DeadLetters: p.DeadLetters,
		}
	}
	return &list, nil
}

// deadLetters lists dead letters, or shows one with what it says.
func (s *Server) deadLetters(r *http.Request) (any, error) {
	q, limit := r.URL.Query(), 100
	for name := range q {
		if name != "id" && name != "limit" {
			return nil, wire.Invalid(name, "is not known; use id or limit")
		}
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > manyLetters {
			return nil, wire.Invalid("limit", "must be a number between 1 and %d", manyLetters)
		}
		limit = n
	}
	if id := q.Get("id"); id != "" {
		d, err := s.Bus.DeadLetter(r.Context(), id)
		if err != nil {
			return nil, s.noLetter("dlq", id, err)
		}
		return &wire.DeadLetterList{DeadLetters: []wire.DeadLetter{viewDead(&d, true)}, Total: 1}, nil
	}
	dead, all, err := s.Bus.DeadLetters(r.Context(), limit)
	if err != nil {
		return nil, s.storeAway("dlq", err)
	}
	list := wire.DeadLetterList{DeadLetters: make([]wire.DeadLetter, len(dead)), Total: all}
	for i := range dead {
		list.DeadLetters[i] = viewDead(&dead[i], false)
	}
	return &list, nil
}

// viewDead is a dead letter as it is shown. What it says may be what somebody said, so it is shown to whoever asks for
// that one only.
func viewDead(d *bus.DeadLetter, whole bool) wire.DeadLetter {
	text := d.DeadLetter.Body
	v := wire.DeadLetter{
		ID: d.Name(), Incarnation: string(d.Inbox), Kind: string(d.Kind), From: string(d.From), Reason: d.Reason,
		Deliveries: d.Deliveries, AgeMS: d.Age.Milliseconds(), Bytes: len(text),
	}
	switch {
	case !whole:
	case json.Valid(text):
		v.Body = text
	default:
		v.Text = string(text)
	}
	return v
}

// noLetter is the answer when a dead letter could not be found, replayed or dropped.
func (s *Server) noLetter(operation, id string, err error) *wire.Error {
	switch {
	case errors.Is(err, bus.ErrNoDeadLetter):
		return wire.FieldErrorf(wire.NotFound, "id", "there is no dead letter %q, or not any more", id)
	case errors.Is(err, bus.ErrExpired):
		return wire.FieldErrorf(wire.InvalidRequest, "id", "the dead letter is older than anybody needs it, and would be dropped: purge it")
	case errors.Is(err, bus.ErrAbsent):
		return wire.Errorf(wire.SchedulerDependencyDown, "this scheduler does not count as present and has no inbox: try again, or ask another")
	case errors.Is(err, bus.ErrFull):
		return wire.Errorf(wire.SchedulerDependencyDown, "the inbox of this scheduler is full: try again when it has dealt with some of it, or ask another")
	}
	return s.storeAway(operation, err)
}

// eachLetter does something with dead letters: those that are named, or all.
func (s *Server) eachLetter(do func(*bus.Bus, context.Context, string) error) func(context.Context, *wire.DeadLettersRequest) (any, error) {
	return func(ctx context.Context, in *wire.DeadLettersRequest) (any, error) {
		ids := in.IDs
		switch {
		case in.All && len(ids) > 0:
			return nil, wire.Invalid("ids", "name some, or say all, not both")
		case !in.All && len(ids) == 0:
			return nil, wire.Invalid("ids", "is missing: name some, or say all")
		case len(ids) > manyLetters:
			return nil, wire.Invalid("ids", "holds %d names; %d is the most", len(ids), manyLetters)
		case in.All:
			dead, _, err := s.Bus.DeadLetters(ctx, manyLetters)
			if err != nil {
				return nil, s.storeAway("dlq", err)
			}
			for i := range dead {
				ids = append(ids, dead[i].Name())
			}
		}
		out := wire.DeadLettersResponse{Done: []string{}}
		for _, id := range ids {
			err := do(s.Bus, ctx, id)
			if err == nil {
				out.Done = append(out.Done, id)
				continue
			}
			if out.Failed == nil {
				out.Failed = make(map[string]string)
			}
			out.Failed[id] = s.noLetter("dlq", id, err).Detail
		}
		return &out, nil
	}
}
