//go:build !race

package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

func (x *subject) instance() core.InstanceID { return core.InstanceID(x.name) }

func (x *subject) session() core.SessionRef { return redisstore.SessionNamed(x.name) }

// withInstance prepares a present instance.
func withInstance(ctx context.Context, x *subject) error {
	return x.reliable.Announce(ctx, store.AnnounceParams{ID: x.instance(), Body: []byte("me"), TTL: time.Minute})
}

func postMessage(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	posted, err := s.Post(ctx, store.PostParams{To: x.instance(), Body: []byte("message"), MaxMessages: 10})
	return fmt.Sprint(posted), err
}

// withPendingMessage prepares an inbox with a message that was fetched.
func withPendingMessage(ctx context.Context, x *subject) error {
	if err := after(withInstance, postMessage)(ctx, x); err != nil {
		return err
	}
	messages, err := x.reliable.Fetch(ctx, store.FetchParams{Inbox: x.instance(), Wait: time.Second, Limit: 1})
	if err == nil {
		x.message = messages[0]
	}
	return err
}

func makeDeadLetter(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	_, err := s.DeadLetter(ctx, store.DeadLetterParams{Inbox: x.instance(), Message: x.message, Reason: "FAILED", Keep: time.Minute})
	return "", err
}

// replayDeadLetter replays the dead letter, unless an earlier call did.
func replayDeadLetter(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	dead, err := x.reliable.DeadLetters(ctx, x.instance(), "", 1)
	if err != nil || len(dead) == 0 {
		return "", err
	}
	_, err = s.Replay(ctx, store.ReplayParams{Inbox: x.instance(), ID: dead[0].ID, To: x.instance(), MaxMessages: 10})
	return "", err
}

func saveSession(takeOver bool) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		held, err := s.SaveSession(ctx, store.SaveParams{
			Session: x.session(), Ownership: store.Ownership{Owner: "i-1", Epoch: 1}, TakeOver: takeOver, Body: fmt.Appendf(nil, "take over %v", takeOver), Keep: time.Minute, Known: 3,
		})
		return fmt.Sprint(held), err
	}
}

var inboxLostReplies = []lostReply{
	{name: "save", command: "save", prepare: after(withNothing, saveSession(true)), call: saveSession(false)},
	{name: "save first", command: "save", prepare: withNothing, call: saveSession(true)},
	{name: "announce", command: "announce", prepare: withNothing, done: func(_, now redisState) bool { return now.has("presence") }, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Announce(ctx, store.AnnounceParams{ID: x.instance(), Body: []byte("me"), TTL: time.Minute})
	}},
	{name: "acknowledge", command: "acknowledge", prepare: withPendingMessage, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Acknowledge(ctx, x.instance(), x.message.ID)
	}},
	{name: "dead letter", command: "deadletter", prepare: withPendingMessage, call: makeDeadLetter},
	{name: "fetch abandoned", command: "fetch_abandoned", prepare: func(ctx context.Context, x *subject) error {
		if err := after(withInstance, postMessage)(ctx, x); err != nil {
			return err
		}
		return x.reliable.Announce(ctx, store.AnnounceParams{ID: x.instance()})
	}, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		messages, err := s.FetchAbandoned(ctx, x.instance(), 8)
		if err != nil || len(messages) != 1 {
			return fmt.Sprint(messages), err
		}
		return fmt.Sprint(string(messages[0].Body), messages[0].Deliveries), nil
	}},
	{name: "remove inbox", command: "remove_inbox", prepare: func(ctx context.Context, x *subject) error {
		if err := withPendingMessage(ctx, x); err != nil {
			return err
		}
		return x.reliable.Announce(ctx, store.AnnounceParams{ID: x.instance()})
	}, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		done, err := s.RemoveInbox(ctx, x.instance())
		return fmt.Sprint(done), err
	}},
	// A message may arrive twice, which receivers recognise; Pending counts a delivery; and Discard returns how many it removed.
	{name: "post", command: "post", prepare: withInstance, counts: true, call: postMessage},
	{name: "pending", command: "pending", prepare: withPendingMessage, counts: true, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		messages, err := s.Pending(ctx, store.FetchParams{Inbox: x.instance(), Limit: 1})
		return fmt.Sprint(len(messages)), err
	}},
	{name: "claim of a replay", command: "claim_dead_letter", prepare: after(withPendingMessage, makeDeadLetter), counts: true, call: replayDeadLetter},
	{name: "replay", command: "replay", prepare: after(withPendingMessage, makeDeadLetter), counts: true, call: replayDeadLetter, done: func(before, now redisState) bool {
		return now["inbox"] != before["inbox"]
	}},
	{name: "discard", command: "discard", prepare: after(withPendingMessage, makeDeadLetter), counts: true, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		n, err := s.Discard(ctx, x.instance())
		return fmt.Sprint(n), err
	}},
}
