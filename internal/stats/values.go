package stats

import (
	"context"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Where the store has the snapshot and the history.
var (
	snapshotKey = store.ValueKey{Kind: store.SnapshotValue}
	historyKey  = store.ValueKey{Kind: store.HistoryValue}
)

// countsKey is where the store has what an instance has counted since it started.
func countsKey(id core.InstanceID) store.ValueKey {
	return store.ValueKey{Kind: store.CountsValue, Name: string(id)}
}

// historyPrefix begins the names under which the parts of the history are stored.
const historyPrefix = "part:"

// readHistory reads the parts of the history by their names.
func readHistory(ctx context.Context, values store.Values) (map[string][]byte, error) {
	stored, err := store.ReadValue(ctx, values, store.ValueQuery{Key: historyKey})
	parts := make(map[string][]byte, len(stored.Parts))
	for name, body := range stored.Parts {
		if name, ok := strings.CutPrefix(name, historyPrefix); ok {
			parts[name] = body
		}
	}
	return parts, err
}

// writeHistory replaces parts of the history, and reports whether it did: not if they were written with a higher fence.
func writeHistory(ctx context.Context, values store.Values, fence int64, parts map[string][]byte) (bool, error) {
	p := store.WriteValueParams{Key: historyKey, Fence: fence, TTL: historyTTL, Parts: make(map[string][]byte, len(parts))}
	for name, body := range parts {
		p.Parts[historyPrefix+name] = body
	}
	return values.WriteValue(ctx, p)
}
