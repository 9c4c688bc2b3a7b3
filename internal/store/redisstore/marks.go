package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The fields of a mark in the stream of changes.
const (
	markField        = "mark"
	markForField     = "for"
	markEpochField   = "epoch"
	markVersionField = "version"
	markReasonField  = "reason"
)

// Mark implements store.Marks.
func (s *Store) Mark(ctx context.Context, m store.Mark) error {
	name, epoch := markName(&m), strconv.FormatInt(int64(m.Epoch), 10)
	_, r, err := s.client.runScript(ctx, &scriptMark, []string{s.keys.meta(m.Node), s.keys.unavailable(m.Node)},
		name, millis(m.For), epoch, strconv.FormatInt(int64(m.NodeVersion), 10))
	switch {
	case err != nil:
		return err
	case r.int(0) == replyNotRegistered:
		return store.ErrNoNode
	}
	s.publishChange(ctx, m.Node, changeMark,
		markField, name, markForField, millis(m.For), markEpochField, epoch, markVersionField, strconv.FormatInt(r.int(0), 10),
		markReasonField, string(m.Reason))
	return nil
}

// Marked implements store.Marks.
func (s *Store) Marked(ctx context.Context, nodes ...core.NodeID) ([]store.Mark, error) {
	calls := make([]scriptCall, len(nodes))
	for i, node := range nodes {
		calls[i] = scriptCall{keys: []string{s.keys.unavailable(node)}}
	}
	var marks []store.Mark
	err := s.client.readEach(ctx, &scriptMarked, calls, func(i int, now int64, r reply) {
		flat := r.texts(0)
		for j := 0; j+1 < len(flat); j += 2 {
			values := append(strings.Split(flat[j+1], ":"), "", "")
			if until := parseNumber(values[0]); until > now {
				m := store.Mark{Node: nodes[i], For: time.Duration(until-now) * time.Millisecond}
				m.Service, m.Version = parseMarkName(flat[j])
				m.Epoch, m.NodeVersion = core.Epoch(parseNumber(values[1])), core.Version(parseNumber(values[2]))
				marks = append(marks, m)
			}
		}
	})
	return marks, err
}

// markOf returns the mark that an entry in the stream of changes contains.
func markOf(node core.NodeID, fields map[string]string) store.Mark {
	m := store.Mark{
		Node: node, For: time.Duration(parseNumber(fields[markForField])) * time.Millisecond,
		Reason: core.UnavailableReason(fields[markReasonField]),
	}
	m.Service, m.Version = parseMarkName(fields[markField])
	m.Epoch, m.NodeVersion = core.Epoch(parseNumber(fields[markEpochField])), core.Version(parseNumber(fields[markVersionField]))
	return m
}

// markName is the name of a mark: the length of the service's id, a colon, the id and the version. Both may contain any character.
func markName(m *store.Mark) string {
	return strconv.Itoa(len(m.Service)) + ":" + m.Service + m.Version
}

// parseMarkName returns the service and the version of the name of a mark.
func parseMarkName(name string) (service, version string) {
	length, rest, _ := strings.Cut(name, ":")
	n := min(max(int(parseNumber(length)), 0), len(rest))
	return rest[:n], rest[n:]
}

// parseNumber parses a number that this package has written; 0 for any other text.
func parseNumber(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
