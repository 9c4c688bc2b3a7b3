package nodes

import (
	"context"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// DirectionLists shares lists of directions of a large fleet among the requests for the same list: a list is a pass over all nodes, and
// reads how many jobs each has. Such passes take at most one listShare-th of the time, so a list may be some seconds old.
type DirectionLists struct {
	registry *Registry

	mu    sync.Mutex
	lists map[listKey]*directionList
}

const (
	// sharedFrom is how many nodes a fleet has whose lists are shared.
	sharedFrom = 500
	listShare  = 50
	maxListAge = 10 * time.Second
	// maxLists bounds the lists that are kept: callers choose the filters.
	maxLists = 32
)

// listKey identifies a list.
type listKey struct {
	lang      core.Lang
	region    string
	node      core.NodeID
	ofTenant  bool
	tenant    core.TenantID
	after     core.Direction
	limit     int
	additions bool
}

// directionList is one list, or one that is being made.
type directionList struct {
	made    chan struct{} // closed when it is complete
	expires time.Time

	began     time.Time
	abandoned bool // the request that made it ended before: another one has to make it
	list      []DirectionCapacity
	more      bool
	err       error
}

// NewDirectionLists makes the lists of a registry.
func NewDirectionLists(r *Registry) *DirectionLists {
	return &DirectionLists{registry: r, lists: make(map[listKey]*directionList)}
}

// List is ListDirections of the registry. The list must not be changed.
func (l *DirectionLists) List(ctx context.Context, f DirectionFilter, after core.Direction, limit int) ([]DirectionCapacity, bool, error) {
	if l.registry.fleet.Len() < sharedFrom {
		return l.registry.ListDirections(ctx, f, after, limit)
	}
	key := listKey{lang: f.Lang, region: f.Region, node: f.Node, after: after, limit: limit, additions: len(f.Also) > 0}
	if f.Tenant != nil {
		key.ofTenant, key.tenant = true, *f.Tenant
	}
	for {
		d, mine := l.begin(key)
		if mine {
			return l.make(ctx, key, d, f)
		}
		select {
		case <-d.made:
		case <-ctx.Done():
			return nil, false, l.registry.storeError(ctx, "directions", ctx.Err())
		}
		if !d.abandoned {
			return d.list, d.more, d.err
		}
	}
}

// make makes a list.
func (l *DirectionLists) make(ctx context.Context, key listKey, d *directionList, f DirectionFilter) ([]DirectionCapacity, bool, error) {
	d.began, d.abandoned = time.Now(), true
	defer l.finish(key, d) // also if it panics: others wait for it
	d.list, d.more, d.err = l.registry.ListDirections(ctx, f, key.after, key.limit)
	d.abandoned = ctx.Err() != nil
	return d.list, d.more, d.err
}

// begin returns a list that is not too old or being made, or one that the caller has to make.
func (l *DirectionLists) begin(key listKey) (_ *directionList, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if d := l.lists[key]; d != nil && (d.expires.IsZero() || now.Before(d.expires)) {
		return d, false
	}
	if len(l.lists) >= maxLists {
		for k, d := range l.lists {
			if !d.expires.IsZero() && !now.Before(d.expires) {
				delete(l.lists, k)
			}
		}
	}
	d := &directionList{made: make(chan struct{})}
	if len(l.lists) < maxLists {
		l.lists[key] = d
	}
	return d, true
}

// finish publishes a list. One that could not be made is not kept.
func (l *DirectionLists) finish(key listKey, d *directionList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	d.expires = now.Add(min(listShare*now.Sub(d.began), maxListAge))
	if (d.err != nil || d.abandoned) && l.lists[key] == d {
		delete(l.lists, key)
	}
	close(d.made)
}
