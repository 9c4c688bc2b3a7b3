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

func (x *subject) session() core.SessionRef { return redisstore.SessionOf(x.name) }

// present announces an instance.
func present(ctx context.Context, x *subject) error {
	return x.sure.Announce(ctx, store.AnnounceParams{ID: x.instance(), Body: []byte("me"), TTL: time.Minute})
}

func posts(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	posted, err := s.Post(ctx, store.PostParams{To: x.instance(), Body: []byte("letter"), MaxMessages: 10})
	return fmt.Sprint(posted), err
}

// fetched has a letter in its inbox that was fetched.
func fetched(ctx context.Context, x *subject) error {
	if err := then(present, posts)(ctx, x); err != nil {
		return err
	}
	letters, err := x.sure.Fetch(ctx, store.FetchParams{Inbox: x.instance(), Wait: time.Second, Limit: 1})
	if err == nil {
		x.letter = letters[0]
	}
	return err
}

func deadLetters(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	_, err := s.DeadLetter(ctx, store.DeadLetterParams{Inbox: x.instance(), Message: x.letter, Reason: "FAILED", Keep: time.Minute})
	return "", err
}

// replays puts the dead letter back. Whether it was this call or an earlier one that did is not said.
func replays(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	dead, err := x.sure.DeadLetters(ctx, x.instance(), "", 1)
	if err != nil || len(dead) == 0 {
		return "", err
	}
	_, err = s.Replay(ctx, store.ReplayParams{Inbox: x.instance(), ID: dead[0].ID, To: x.instance(), MaxMessages: 10})
	return "", err
}

func saves(take bool) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		held, err := s.SaveSession(ctx, store.SaveParams{
			Session: x.session(), Ownership: store.Ownership{Owner: "i-1", Epoch: 1}, TakeOver: take, Body: fmt.Appendf(nil, "take %v", take), Keep: time.Minute, Known: 3,
		})
		return fmt.Sprint(held), err
	}
}

var mailLosses = []loss{
	{name: "save", loses: "save", prepare: then(nothing, saves(true)), call: saves(false)},
	{name: "save first", loses: "save", prepare: nothing, call: saves(true)},
	{name: "announce", loses: "announce", prepare: nothing, done: func(_, now state) bool { return now.has("presence") }, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Announce(ctx, store.AnnounceParams{ID: x.instance(), Body: []byte("me"), TTL: time.Minute})
	}},
	{name: "acknowledge", loses: "acknowledge", prepare: fetched, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		return "", s.Acknowledge(ctx, x.instance(), x.letter.ID)
	}},
	{name: "dead letter", loses: "deadletter", prepare: fetched, call: deadLetters},
	{name: "fetch abandoned", loses: "fetch_abandoned", prepare: func(ctx context.Context, x *subject) error {
		if err := then(present, posts)(ctx, x); err != nil {
			return err
		}
		return x.sure.Withdraw(ctx, x.instance())
	}, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		letters, err := s.FetchAbandoned(ctx, x.instance(), 8)
		if err != nil || len(letters) != 1 {
			return fmt.Sprint(letters), err
		}
		return fmt.Sprint(string(letters[0].Body), letters[0].Deliveries), nil
	}},
	{name: "remove inbox", loses: "remove_inbox", prepare: func(ctx context.Context, x *subject) error {
		if err := fetched(ctx, x); err != nil {
			return err
		}
		return x.sure.Withdraw(ctx, x.instance())
	}, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		done, err := s.RemoveInbox(ctx, x.instance())
		return fmt.Sprint(done), err
	}},
	// A letter may come twice, its readers know that; a letter that is taken up again was delivered once more; and who
	// discards what is gone is told so.
	{name: "post", loses: "post", prepare: present, counts: true, call: posts},
	{name: "pending", loses: "pending", prepare: fetched, counts: true, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		letters, err := s.Pending(ctx, store.FetchParams{Inbox: x.instance(), Limit: 1})
		return fmt.Sprint(len(letters)), err
	}},
	{name: "replay, claim", loses: "claim_dead_letter", prepare: then(fetched, deadLetters), counts: true, call: replays},
	{name: "replay", loses: "replay", prepare: then(fetched, deadLetters), counts: true, call: replays, done: func(before, now state) bool {
		return now["inbox"] != before["inbox"]
	}},
	{name: "discard", loses: "discard", prepare: then(fetched, deadLetters), counts: true, call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		n, err := s.Discard(ctx, x.instance())
		return fmt.Sprint(n), err
	}},
}
