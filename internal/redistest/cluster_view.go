package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// span is a run of slots, both ends included.
type span struct{ from, to int }

// member is a node as another sees it: a line of CLUSTER NODES.
type member struct {
	flags     []string
	primaryID string // empty of a primary
	epoch     int64
	connected bool
	spans     []span
}

// view is how a node sees the cluster, by node id.
func (s *Server) view() (map[string]member, error) {
	text, err := s.text("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	view := make(map[string]member)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 {
			return nil, fmt.Errorf("a line of CLUSTER NODES: %q", line)
		}
		m := member{flags: strings.Split(words[2], ","), primaryID: strings.Trim(words[3], "-")}
		if m.epoch, err = strconv.ParseInt(words[6], 10, 64); err != nil {
			return nil, fmt.Errorf("a line of CLUSTER NODES: %q", line)
		}
		m.connected = words[7] == "connected"
		for _, word := range words[8:] {
			if strings.HasPrefix(word, "[") {
				continue // a slot on the move; it is still among those of its owner
			}
			s, err := readSpan(word)
			if err != nil {
				return nil, err
			}
			m.spans = append(m.spans, s)
		}
		view[words[0]] = m
	}
	return view, nil
}

// readSpan reads "0-5460" or "7".
func readSpan(word string) (span, error) {
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.Atoi(first)
	if err != nil {
		return span{}, fmt.Errorf("slots of CLUSTER NODES: %w", err)
	}
	to, err := strconv.Atoi(last)
	if err != nil {
		return span{}, fmt.Errorf("slots of CLUSTER NODES: %w", err)
	}
	return span{from, to}, nil
}

// well reports whether a member takes part.
func (m member) well() bool {
	return m.connected && !slices.ContainsFunc(m.flags, func(flag string) bool {
		return flag == "fail" || flag == "fail?" || flag == "handshake" || flag == "noaddr"
	})
}
