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

// The kinds of changes in the stream.
const (
	changeNode    = "node"    // its declaration, drain or connection
	changeRemoved = "removed" // it was removed
	changeMark    = "mark"    // a service was marked
	changeRevoked = "revoked" // a revocation was added; it names no node
	changeSetting = "setting" // a setting was announced; it names no node
)

const settingField = "setting" // the field with the name of a setting

const (
	maxChanges     = 8192             // that the stream keeps, about
	changesPerRead = 256              // maximum of one read
	readBlock      = 10 * time.Second // how long a read waits for a change
)

// publishChange publishes that a node has changed, or the list of revocations, or a setting. It only makes watchers fast: if it is lost, a
// comparison of the fleet or a poll finds the change.
func (s *Store) publishChange(ctx context.Context, node core.NodeID, kind string, more ...string) {
	err := s.write(ctx, s.keys.changes(), func() rueidis.Completed {
		fields := s.client.redis.B().Xadd().Key(s.keys.changes()).Maxlen().Almost().Threshold(strconv.Itoa(maxChanges)).Id("*").
			FieldValue().FieldValue("node", string(node)).FieldValue("kind", kind)
		for i := 0; i+1 < len(more); i += 2 {
			fields = fields.FieldValue(more[i], more[i+1])
		}
		return fields.Build()
	})
	if err != nil {
		s.log.Warn("a change could not be published; other instances find it with their next comparison or poll", "node_id", node, "error",
			err)
	}
}

// Watch implements store.NodeReader. A change names a node, whose current state is then read, so that many changes of one node are one
// read.
func (s *Store) Watch(ctx context.Context, ready func(), fn func(store.Change)) error {
	position, err := s.streamEnd(ctx)
	if err != nil {
		return err
	}
	ready()
	for {
		changes, last, err := s.readChanges(ctx, position)
		if err != nil {
			return err
		}
		if err := s.deliverChanges(ctx, changes, fn); err != nil {
			return err
		}
		if len(changes) > 0 && len(changes) < changesPerRead {
			position = last
			continue
		}
		// The read was empty or full: check that no change was missed, because the stream was trimmed or is another one.
		gap, err := s.hasGap(ctx, position)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			position = last
		}
		if gap {
			if position, err = s.streamEnd(ctx); err != nil {
				return err
			}
			fn(store.Change{Gap: true})
		}
	}
}

// change is one entry of the stream.
type change struct {
	node    core.NodeID
	kind    string
	mark    store.Mark
	setting string
}

// readChanges waits for changes after a position.
func (s *Store) readChanges(ctx context.Context, after string) ([]change, string, error) {
	read := s.client.redis.B().Xread().Count(changesPerRead).Block(readBlock.Milliseconds()).Streams().
		Key(s.keys.changes()).Id(after).Build()
	reply, err := s.client.reads.do(ctx, s.client.redis, read)
	if err != nil {
		return nil, "", fmt.Errorf("changes: %w", err) // another primary may lack changes that were read, and have others before them
	}
	streams, err := reply.AsXRead()
	if err = convertError(err); err != nil {
		s.client.countError(err)
		s.client.logRefused(s.keys.changes(), err)
		return nil, "", fmt.Errorf("changes: %w", err)
	}
	entries := streams[s.keys.changes()]
	list := make([]change, len(entries))
	for i, e := range entries {
		after = e.ID
		list[i] = change{node: core.NodeID(e.FieldValues["node"]), kind: e.FieldValues["kind"], setting: e.FieldValues[settingField]}
		if list[i].kind == changeMark {
			list[i].mark = markOf(list[i].node, e.FieldValues)
		}
	}
	return list, after, nil
}

// deliverChanges calls fn with changes in order, and reads each node only once, for its last change.
func (s *Store) deliverChanges(ctx context.Context, changes []change, fn func(store.Change)) error {
	last := make(map[core.NodeID]int)
	for i, c := range changes {
		if c.kind != changeMark && c.kind != changeRevoked && c.kind != changeSetting {
			last[c.node] = i
		}
	}
	for i, c := range changes {
		switch {
		case c.kind == changeMark:
			fn(store.Change{Node: c.node, Mark: &c.mark})
		case c.kind == changeRevoked:
			fn(store.Change{Revoked: true})
		case c.kind == changeSetting:
			fn(store.Change{Setting: c.setting})
		case last[c.node] != i:
		default:
			now, err := store.ReadNode(ctx, s, c.node)
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

// streamEnd returns the current end of the stream.
func (s *Store) streamEnd(ctx context.Context) (string, error) {
	stream, err := s.streamEnds(ctx)
	return stream.last, err
}

// hasGap reports whether changes after a position were trimmed, or the stream is not the one of the position.
func (s *Store) hasGap(ctx context.Context, position string) (bool, error) {
	stream, err := s.streamEnds(ctx)
	if err != nil {
		return false, err
	}
	return idBefore(position, stream.first) || idBefore(stream.last, position), nil
}

// streamBounds are the ids of the last entry of a stream, and of its first one if older ones were trimmed.
type streamBounds struct{ first, last string }

func (s *Store) streamEnds(ctx context.Context) (streamBounds, error) {
	ends := streamBounds{first: "0-0", last: "0-0"}
	m, err := s.client.command(ctx, s.client.redis.B().XinfoStream().Key(s.keys.changes()).Build())
	if reply, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(reply.Error(), noSuchKey) || isWrongType(err) {
		return ends, nil // the next change makes it a stream
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

// idBefore reports whether one entry id comes before another.
func idBefore(a, b string) bool {
	ams, aseq := parseEntryID(a)
	bms, bseq := parseEntryID(b)
	return ams < bms || ams == bms && aseq < bseq
}

func parseEntryID(id string) (ms, seq uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64)
	seq, _ = strconv.ParseUint(second, 10, 64)
	return ms, seq
}
