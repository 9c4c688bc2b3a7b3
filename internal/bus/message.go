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

// Kind is the kind of a message, which decides its handler.
type Kind string

// Message is a message from one instance to another.
type Message struct {
	ID    string          `json:"id"` // of each copy of the message
	From  core.InstanceID `json:"from"`
	Kind  Kind            `json:"kind"`
	TTLMS int64           `json:"ttl_ms"` // after which it is of no use
	Body  json.RawMessage `json:"body"`
}

// errUnreadable says that the body of a message is not that of its kind: there is no use in a retry.
var errUnreadable = errors.New("it cannot be read")

// Decoding makes a handler of messages from a handler of their decoded bodies. A message whose body cannot be decoded becomes a
// dead letter at once.
func Decoding[T any](fn func(ctx context.Context, m *Message, body *T) error) func(context.Context, *Message) error {
	return func(ctx context.Context, m *Message) error {
		body := new(T)
		if err := json.Unmarshal(m.Body, body); err != nil {
			return fmt.Errorf("a message of kind %s: %w: %w", m.Kind, errUnreadable, err)
		}
		return fn(ctx, m, body)
	}
}

func (m *Message) ttl() time.Duration { return time.Duration(m.TTLMS) * time.Millisecond }

// expired reports whether the message is of no use any more.
func (m *Message) expired(age time.Duration) bool { return age > m.ttl() }

var (
	// ErrAbsent says that the instance is not present: the message was not accepted.
	ErrAbsent = errors.New("the instance is not present")
	// ErrFull says that the inbox is full: the message was not accepted.
	ErrFull = errors.New("the inbox of the instance is full")
)

// maxInbox is how many messages an inbox holds. An instance with a full inbox is treated as if it were absent.
const maxInbox = 8192

// Send puts a message into the inbox of an instance. With ErrAbsent and ErrFull it was certainly not accepted; with any other
// error it may have been.
func (b *Bus) Send(ctx context.Context, to core.InstanceID, kind Kind, ttl time.Duration, body any) error {
	m := Message{
		ID: string(b.cfg.Instance) + "." + strconv.FormatUint(b.sent.Add(1), 36), From: b.cfg.Instance, Kind: kind,
		TTLMS: ttl.Milliseconds(),
	}
	var err error
	if m.Body, err = json.Marshal(body); err != nil {
		return err
	}
	text, err := json.Marshal(&m)
	if err != nil {
		return err
	}
	posted, err := b.store.Post(ctx, store.PostParams{To: to, Body: text, MaxMessages: maxInbox})
	result := "sent"
	switch {
	case err != nil:
		result = "unknown"
	case posted == store.InstanceAbsent:
		result, err = "absent", ErrAbsent
	case posted == store.InboxFull:
		result, err = "full", ErrFull
	}
	b.metrics.MessagesSent.WithLabelValues(string(kind), result).Inc()
	return err
}
