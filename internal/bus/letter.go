package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Kind is what a letter is about.
type Kind string

// Letter is what one instance has to tell another.
type Message struct {
	ID    string          `json:"id"` // the same when it is sent again
	From  core.InstanceID `json:"from"`
	Kind  Kind            `json:"kind"`
	TTLMS int64           `json:"ttl_ms"` // after which nobody needs it
	Body  json.RawMessage `json:"body"`
}

// errUnread says that a letter's body is not what letters of its kind hold: nobody has to try that again.
var errUnread = errors.New("it cannot be read")

// Reading makes a handler of letters of a handler of what is in them. A letter whose body cannot be read is put among the
// dead at once.
func Decoding[T any](fn func(ctx context.Context, l *Message, body *T) error) func(context.Context, *Message) error {
	return func(ctx context.Context, l *Message) error {
		body := new(T)
		if err := json.Unmarshal(l.Body, body); err != nil {
			return fmt.Errorf("a letter of kind %s: %w: %w", l.Kind, errUnread, err)
		}
		return fn(ctx, l, body)
	}
}

// stale reports whether nobody needs the letter any more.
func (l *Message) stale(age time.Duration) bool { return age > time.Duration(l.TTLMS)*time.Millisecond }

var (
	// ErrAway says that there is no such instance, or not any more: the letter was not taken.
	ErrAbsent = errors.New("the instance is not present")
	// ErrFull says that the inbox is full: the letter was not taken.
	ErrFull = errors.New("the inbox of the instance is full")
)

// mostLetters is how many letters an inbox holds: beyond that its instance is as good as away.
const mostLetters = 8192

// Send puts a letter into an instance's inbox. ErrAway and ErrFull say that it was certainly not taken; any other error
// that it may have been.
func (b *Bus) Send(ctx context.Context, to core.InstanceID, kind Kind, ttl time.Duration, body any) error {
	l := Message{
		ID: string(b.cfg.Instance) + "." + strconv.FormatUint(b.sent.Add(1), 36), From: b.cfg.Instance, Kind: kind, TTLMS: ttl.Milliseconds(),
	}
	var err error
	if l.Body, err = json.Marshal(body); err != nil {
		return err
	}
	text, err := json.Marshal(&l)
	if err != nil {
		return err
	}
	posted, err := b.store.Post(ctx, store.PostParams{To: to, Body: text, MaxMessages: mostLetters})
	result := "sent"
	switch {
	case err != nil:
		result = "unknown"
	case posted == store.InstanceAbsent:
		result, err = "away", ErrAbsent
	case posted == store.InboxFull:
		result, err = "full", ErrFull
	}
	b.metrics.MessagesSent.WithLabelValues(string(kind), result).Inc()
	return err
}
