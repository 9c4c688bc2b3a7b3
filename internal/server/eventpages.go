package server

import (
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// checkOrder checks that the position of a query is one for its order.
func (q *eventQuery) checkOrder() *wire.Error {
	switch {
	case q.newestFirst && q.after != "":
		return wire.Invalid("after", "is for order=asc; use before with order=desc")
	case !q.newestFirst && q.before != "":
		return wire.Invalid("before", "is for order=desc; use after with order=asc")
	}
	return nil
}

// matches reports whether an event has the kind and the node that are asked for.
func (q *eventQuery) matches(e *store.Event) bool {
	return (q.kind == "" || string(e.Kind) == q.kind) && (q.node == "" || string(e.Node) == q.node)
}

// listNewest lists the newest events before a position that match, the newest first. The log is read backwards until there are enough of
// them: it is bounded, and so is this. The position in the answer is that of the last event in it: it does not tell a tenant of others.
func (h *eventHandlers) listNewest(ctx context.Context, q *eventQuery, tenant *core.TenantID) (*wire.EventList, error) {
	list := &wire.EventList{Events: []wire.Event{}}
	read := store.ReadLogParams{Before: q.before, Limit: q.limit}
	for {
		page, err := h.log.page(ctx, read)
		if err != nil {
			return nil, logReadError(err, "before", q.before)
		}
		var found []*store.Event
		for e := range search(ctx, page.Entries) {
			if visibleEvent(e, tenant) && q.matches(e) {
				found = append(found, e)
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, e := range slices.Backward(found) {
			list.Events = append(list.Events, viewEvent(e))
			if len(list.Events) == q.limit {
				list.Next = e.ID
				return list, nil
			}
		}
		if len(page.Entries) == 0 {
			return list, nil // the beginning of the log
		}
		read.Before, read.Limit = page.Entries[0].ID, store.MaxLogEntries
	}
}
