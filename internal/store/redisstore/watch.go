package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Kinds of changes on the stream.
const (
	changeNode    = "node"    // what it declares, or its drain
	changeRemoved = "removed" // it is gone
	changeMark    = "mark"    // a service was marked
)

const (
	keepChanges = 8192        // how many changes the stream keeps, about
	readChanges = 256         // how many are read at once
	blockFor    = time.Second // how long a read waits for a change
)

// announce tells whoever watches that a node has changed. It only makes it fast: if it is lost, a comparison finds
// the change.
func (s *Store) announce(ctx context.Context, node core.NodeID, kind string, more ...string) {
	fields := s.line.redis.B().Xadd().Key(s.keys.changes()).Maxlen().Almost().Threshold(strconv.Itoa(keepChanges)).Id("*").
		FieldValue().FieldValue("node", string(node)).FieldValue("kind", kind)
	for i := 0; i+1 < len(more); i += 2 {
		fields = fields.FieldValue(more[i], more[i+1])
	}
	if _, err := s.line.one(s.line.begin(ctx), fields.Build()); err != nil {
		s.log.Warn("a change could not be announced; others find it when they compare", "node_id", node, "error", err)
	}
}

// Watch implements store.Census. Changes name nodes; what they are now is read from the nodes themselves, so that
// many changes of one node are one look at it.
func (s *Store) Watch(ctx context.Context, ready func(), fn func(store.Change)) error {
	position, err := s.position(ctx)
	if err != nil {
		return err
	}
	ready()
	for {
		changes, last, err := s.changes(ctx, position)
		if err != nil {
			return err
		}
		if err := s.tell(ctx, changes, fn); err != nil {
			return err
		}
		if len(changes) > 0 && len(changes) < readChanges {
			position = last
			continue
		}
		// Nothing has come for a while, or more than could be read at once: this is the time to make sure that
		// nothing was missed, because the stream was cut, or because it is another one.
		gap, err := s.missed(ctx, position)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			position = last
		}
		if gap {
			if position, err = s.position(ctx); err != nil {
				return err
			}
			fn(store.Change{Gap: true})
		}
	}
}

// change is one entry of the stream.
type change struct {
	node core.NodeID
	kind string
	mark store.Mark
}

// changes waits for changes after a position.
func (s *Store) changes(ctx context.Context, after string) ([]change, string, error) {
	read := s.line.redis.B().Xread().Count(readChanges).Block(blockFor.Milliseconds()).Streams().Key(s.keys.changes()).Id(after).Build()
	streams, err := s.line.redis.Do(ctx, read).AsXRead()
	if err = spoken(err); err != nil {
		return nil, "", fmt.Errorf("changes: %w", err)
	}
	entries := streams[s.keys.changes()]
	list := make([]change, len(entries))
	for i, e := range entries {
		after = e.ID
		ms, _ := strconv.ParseInt(e.FieldValues["for"], 10, 64)
		list[i] = change{node: core.NodeID(e.FieldValues["node"]), kind: e.FieldValues["kind"]}
		list[i].mark = store.Mark{Node: list[i].node, Service: e.FieldValues["service"], For: time.Duration(ms) * time.Millisecond}
	}
	return list, after, nil
}

// tell hands changes over in order, but looks at each node only once, at its last change.
func (s *Store) tell(ctx context.Context, changes []change, fn func(store.Change)) error {
	last := make(map[core.NodeID]int)
	for i, c := range changes {
		if c.kind != changeMark {
			last[c.node] = i
		}
	}
	for i, c := range changes {
		switch {
		case c.kind == changeMark:
			fn(store.Change{Node: c.node, Mark: &c.mark})
		case last[c.node] != i:
		default:
			now, err := s.Node(ctx, c.node)
			switch {
			case errors.Is(err, store.ErrNoNode):
				fn(store.Change{Node: c.node, Removed: true})
			case err != nil:
				return err
			default:
				fn(store.Change{Node: c.node, Now: now})
			}
		}
	}
	return nil
}

// position is the end of the stream as it is now.
func (s *Store) position(ctx context.Context) (string, error) {
	stream, err := s.stream(ctx)
	return stream.last, err
}

// missed reports whether changes after a position are gone, or the stream is not the one the position was in.
func (s *Store) missed(ctx context.Context, position string) (bool, error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return false, err
	}
	return before(position, stream.first) || before(stream.last, position), nil
}

// streamEnds are the last entry a stream has had, and the first it still has if older ones were cut off.
type streamEnds struct{ first, last string }

func (s *Store) stream(ctx context.Context) (streamEnds, error) {
	ends := streamEnds{first: "0-0", last: "0-0"}
	m, err := s.line.one(s.line.begin(ctx), s.line.redis.B().XinfoStream().Key(s.keys.changes()).Build())
	if reply, ok := rueidis.IsRedisErr(err); ok && strings.Contains(reply.Error(), "no such key") {
		return ends, nil
	}
	if err != nil {
		return ends, fmt.Errorf("changes: %w", err)
	}
	info, err := m.AsMap()
	if err != nil {
		return ends, fmt.Errorf("changes: %w", err)
	}
	last, length, added, first := info["last-generated-id"], info["length"], info["entries-added"], info["first-entry"]
	ends.last, _ = last.ToString()
	has, _ := length.AsInt64()
	had, _ := added.AsInt64()
	if entry, err := first.ToArray(); err == nil && had > has && len(entry) > 0 {
		ends.first, _ = entry[0].ToString()
	}
	return ends, nil
}

// before reports whether one entry's id comes before another's.
func before(a, b string) bool {
	ams, aseq := parts(a)
	bms, bseq := parts(b)
	return ams < bms || ams == bms && aseq < bseq
}

func parts(id string) (ms, seq uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64)
	seq, _ = strconv.ParseUint(second, 10, 64)
	return ms, seq
}
