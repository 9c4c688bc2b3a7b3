package clustertest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/test/redistest"
)

// KeyPrefix is the prefix of all keys of a cluster.
const KeyPrefix = "drill"

// InboxGroup is the consumer group of every inbox.
const InboxGroup = "inbox"

// InboxKey returns the key of the inbox of an instance.
func InboxKey(instance string) string {
	return KeyPrefix + ":streams:{instance:" + instance + "}:inbox"
}

// Backlog is the number of messages in all inboxes that are not acknowledged.
type Backlog struct {
	Pending, Undelivered int64  // delivered and not acknowledged; not delivered
	OldestMS             int64  // when the oldest message was sent, in milliseconds of the clock of Redis; 0: there is none
	OldestIn             string // the inbox that holds the oldest message
}

// Backlog reads all inboxes, including those of dead instances.
func (r *Redis) Backlog() (Backlog, error) {
	var sum Backlog
	inboxes, err := r.Keys(KeyPrefix + ":streams:*:inbox")
	if err != nil {
		return sum, err
	}
	for _, inbox := range inboxes {
		if err := sum.addInbox(inbox); err != nil && !isMissingKey(err) {
			return sum, fmt.Errorf("%s: %w", inbox.Key, err)
		}
	}
	return sum, nil
}

// addInbox adds the messages of one inbox.
func (b *Backlog) addInbox(inbox KeyLocation) error {
	reply, err := inbox.Server.Do("XPENDING", inbox.Key, InboxGroup)
	if err != nil {
		return err
	}
	if summary, _ := reply.([]any); len(summary) == 4 {
		n, _ := summary[0].(int64)
		b.Pending += n
		if n > 0 {
			b.noteOldest(inbox, summary[1])
		}
	}
	last, err := lastDelivered(inbox)
	if err != nil {
		return err
	}
	reply, err = inbox.Server.Do("XRANGE", inbox.Key, "("+last, "+", "COUNT", "1000")
	if err != nil {
		return err
	}
	rest, _ := reply.([]any)
	b.Undelivered += int64(len(rest))
	if len(rest) > 0 {
		if first, _ := rest[0].([]any); len(first) > 0 {
			b.noteOldest(inbox, first[0])
		}
	}
	return nil
}

// lastDelivered returns the id of the last message that the group has read.
func lastDelivered(inbox KeyLocation) (string, error) {
	reply, err := inbox.Server.Do("XINFO", "GROUPS", inbox.Key)
	if err != nil {
		return "", err
	}
	groups, _ := reply.([]any)
	for _, g := range groups {
		fields, _ := g.([]any)
		info := make(map[string]any)
		for i := 0; i+1 < len(fields); i += 2 {
			info[fmt.Sprint(fields[i])] = fields[i+1]
		}
		if info["name"] == InboxGroup {
			return fmt.Sprint(info["last-delivered-id"]), nil
		}
	}
	return "0-0", nil
}

// noteOldest keeps the time of a message if it is the oldest so far.
func (b *Backlog) noteOldest(inbox KeyLocation, id any) {
	text, _, _ := strings.Cut(fmt.Sprint(id), "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (b.OldestMS == 0 || ms < b.OldestMS) {
		b.OldestMS, b.OldestIn = ms, inbox.Key
	}
}

// Empty reports whether there is no message.
func (b *Backlog) Empty() bool { return b.Pending == 0 && b.Undelivered == 0 }

// Clock returns the latest time of all primaries, in milliseconds.
func (r *Redis) Clock() (int64, error) {
	latest := int64(0)
	for _, server := range r.Primaries() {
		reply, err := server.Do("TIME")
		if err != nil {
			return 0, err
		}
		parts, _ := reply.([]any)
		if len(parts) != 2 {
			return 0, fmt.Errorf("TIME answered %v", reply)
		}
		s, err := strconv.ParseInt(fmt.Sprint(parts[0]), 10, 64)
		if err != nil {
			return 0, err
		}
		us, err := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
		if err != nil {
			return 0, err
		}
		latest = max(latest, s*1000+us/1000)
	}
	return latest, nil
}

// DeadLetter is an entry of a dead-letter stream.
type DeadLetter struct {
	Key, ID, Text string
}

// DeadLetters reads all dead letters.
func (r *Redis) DeadLetters() ([]DeadLetter, error) {
	streams, err := r.Keys(KeyPrefix + ":streams:*:dlq")
	if err != nil {
		return nil, err
	}
	var all []DeadLetter
	for _, stream := range streams {
		found, err := deadLettersIn(stream.Server, stream.Key)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func deadLettersIn(at *redistest.Server, key string) ([]DeadLetter, error) {
	reply, err := at.Do("XRANGE", key, "-", "+", "COUNT", "10000")
	if err != nil {
		return nil, fmt.Errorf("XRANGE %s: %w", key, err)
	}
	list, _ := reply.([]any)
	var all []DeadLetter
	for _, item := range list {
		pair, _ := item.([]any)
		if len(pair) == 2 {
			all = append(all, DeadLetter{Key: key, ID: fmt.Sprint(pair[0]), Text: fmt.Sprint(pair[1])})
		}
	}
	return all, nil
}
