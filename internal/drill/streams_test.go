package drill

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// prefix begins every key of a drill.
const prefix = "drill"

// group is the consumer group of every inbox.
const group = "inbox"

// inboxKey is where messages for an instance wait.
func inboxKey(instance string) string { return prefix + ":streams:{instance:" + instance + "}:inbox" }

// backlog is what waits in the inboxes.
type backlog struct {
	pending, waiting int64  // delivered and not done with; not delivered
	oldest           int64  // of both, when it was sent, in milliseconds of Redis; 0: there is none
	where            string // the oldest is
}

// backlog looks at all inboxes, also those of instances that are gone.
func (t *topology) backlog() (backlog, error) {
	var sum backlog
	inboxes, err := t.keys(prefix + ":streams:*:inbox")
	if err != nil {
		return sum, err
	}
	for _, in := range inboxes {
		if err := sum.add(in); err != nil && !noSuchKey(err) {
			return sum, fmt.Errorf("%s: %w", in.key, err)
		}
	}
	return sum, nil
}

// add counts one inbox.
func (b *backlog) add(in found) error {
	reply, err := in.at.Do("XPENDING", in.key, group)
	if err != nil {
		return err
	}
	if summary, _ := reply.([]any); len(summary) == 4 {
		n, _ := summary[0].(int64)
		b.pending += n
		if n > 0 {
			b.older(in, summary[1])
		}
	}
	last, err := lastDelivered(in)
	if err != nil {
		return err
	}
	reply, err = in.at.Do("XRANGE", in.key, "("+last, "+", "COUNT", "1000")
	if err != nil {
		return err
	}
	rest, _ := reply.([]any)
	b.waiting += int64(len(rest))
	if len(rest) > 0 {
		if first, _ := rest[0].([]any); len(first) > 0 {
			b.older(in, first[0])
		}
	}
	return nil
}

// lastDelivered is up to where the group has read.
func lastDelivered(in found) (string, error) {
	reply, err := in.at.Do("XINFO", "GROUPS", in.key)
	if err != nil {
		return "", err
	}
	groups, _ := reply.([]any)
	for _, g := range groups {
		fields, _ := g.([]any)
		said := make(map[string]any)
		for i := 0; i+1 < len(fields); i += 2 {
			said[fmt.Sprint(fields[i])] = fields[i+1]
		}
		if said["name"] == group {
			return fmt.Sprint(said["last-delivered-id"]), nil
		}
	}
	return "0-0", nil
}

// older keeps the id of an entry if there is none that is older.
func (b *backlog) older(in found, id any) {
	text, _, _ := strings.Cut(fmt.Sprint(id), "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (b.oldest == 0 || ms < b.oldest) {
		b.oldest, b.where = ms, in.key
	}
}

func (b *backlog) empty() bool { return b.pending == 0 && b.waiting == 0 }

// clock is the latest time of all servers, in milliseconds.
func (t *topology) clock() (int64, error) {
	latest := int64(0)
	for _, server := range t.primaries() {
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

// letter is a dead letter, as Redis has it.
type letter struct {
	key, id, text string
}

// letters reads all dead letters.
func (t *topology) letters() ([]letter, error) {
	boxes, err := t.keys(prefix + ":streams:*:dlq")
	if err != nil {
		return nil, err
	}
	var all []letter
	for _, box := range boxes {
		some, err := lettersIn(box.at, box.key)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func lettersIn(at *redistest.Server, key string) ([]letter, error) {
	reply, err := at.Do("XRANGE", key, "-", "+", "COUNT", "10000")
	if err != nil {
		return nil, fmt.Errorf("XRANGE %s: %w", key, err)
	}
	list, _ := reply.([]any)
	var all []letter
	for _, item := range list {
		pair, _ := item.([]any)
		if len(pair) == 2 {
			all = append(all, letter{key: key, id: fmt.Sprint(pair[0]), text: fmt.Sprint(pair[1])})
		}
	}
	return all, nil
}
