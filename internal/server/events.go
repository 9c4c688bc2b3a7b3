package server

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// eventHandlers serve the event log of the fleet, also as it grows, and tell pages what has changed: one stream for each page.
type eventHandlers struct {
	responder
	events    journal.Log[store.Event]
	log       *logCopy[store.Event] // of events
	feed      *liveFeed
	access    *accessControl
	instance  func() core.InstanceID // this one
	reachable func() bool            // it can use the store
	stopping  *atomic.Bool
	streams   *streamLimit // of events
	pages     *streamLimit // streams for open dashboards
}

func (h *eventHandlers) routes() []route {
	return []route{{
		method: "GET", path: "/v1/events", rule: readers, tag: "operation", summary: "Read the event log of the fleet",
		description: "Registrations, losses, drains, takeovers, dead letters and store outages; about 10,000 events are kept. Without " +
			"after, the newest events are returned, the oldest of them first. With order=desc, the newest comes first, and before " +
			"continues with older ones. An event that could not be written at once may appear twice.",
		handler: handle(h.responder, h.list),
		params: []param{
			{name: "order", description: "asc, the default: the oldest first. desc: the newest first.", kind: "string"},
			{name: "before", description: "With order=desc: only events before this position: next of the answer before.", kind: "string"},
			{name: "after", description: "Only events after this position: next of the answer before.", kind: "string"},
			{name: "kind", description: "Only events of this kind.", kind: "string"},
			{name: "node", description: "Only events about this node.", kind: "string"},
			{name: "limit", description: "The maximum number of events, 100 by default, at most 1000.", kind: "integer"},
		},
		codes: []wire.Code{wire.SchedulerDependencyDown},
	}, h.streamRoute(), h.liveRoute()}
}

// visibleEvent reports whether a caller of a tenant may see an event: it is about one of the tenant's nodes. nil: all tenants.
func visibleEvent(e *store.Event, tenant *core.TenantID) bool {
	return tenant == nil || e.Node != "" && e.Tenant == *tenant
}

// viewEvent is an event as the API shows it.
func viewEvent(e *store.Event) wire.Event {
	v := wire.Event{
		ID: e.ID, AtMS: e.At.UnixMilli(), Kind: string(e.Kind), NodeID: string(e.Node), Instance: string(e.Instance), Jobs: e.Jobs,
		Detail: e.Detail,
	}
	if e.Kind == store.EventCoverage && e.Direction != (core.Direction{}) {
		v.SrcLang, v.TgtLang, v.Ready = string(e.Direction.Src), string(e.Direction.Tgt), &e.Ready
	}
	return v
}

const (
	defaultEvents = 100
	maxEvents     = 1000
)

// readLogLimit parses how many entries of a log a request asks for.
func readLogLimit(text string) (int, *wire.Error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxEvents {
		return 0, wire.Invalid("limit", "must be a number between 1 and %d", maxEvents)
	}
	return n, nil
}

// logReadError is the answer to a request for a log that could not be read from a position, which the field has.
func logReadError(err error, field, position string) *wire.Error {
	if errors.Is(err, store.ErrBadPosition) {
		return wire.Invalid(field, "%s is no position in this log; use next of an earlier answer, or leave it out", wire.Quote(position))
	}
	return store.Unavailable()
}

// eventQuery is what a request asks for.
type eventQuery struct {
	after, kind, node string
	before            string
	newestFirst       bool
	limit             int
}

func readEventQuery(r *http.Request) (eventQuery, *wire.Error) {
	q, values := eventQuery{limit: defaultEvents}, r.URL.Query()
	for name := range values {
		switch text := values.Get(name); name {
		case "after":
			q.after = text
		case "before":
			q.before = text
		case "order":
			if text != "asc" && text != "desc" {
				return q, wire.Invalid("order", "must be asc or desc")
			}
			q.newestFirst = text == "desc"
		case "kind":
			if !slices.Contains(store.EventKinds(), store.EventKind(text)) {
				return q, wire.Invalid("kind", "there is no kind %s; one of %v", wire.Quote(text), store.EventKinds())
			}
			q.kind = text
		case "node":
			if e := convert.CheckID("node", text); e != nil {
				return q, e
			}
			q.node = text
		case "limit":
			var e *wire.Error
			if q.limit, e = readLogLimit(text); e != nil {
				return q, e
			}
		default:
			return q, wire.Invalid(wire.Quote(name), "is not known; use after, kind, node, limit, order or before")
		}
	}
	e := q.checkOrder()
	return q, e
}

func (h *eventHandlers) list(r *http.Request) (*wire.EventList, error) {
	q, e := readEventQuery(r)
	if e != nil {
		return nil, e
	}
	tenant := visibleTenant(r.Context())
	if q.newestFirst {
		return h.listNewest(r.Context(), &q, tenant)
	}
	read := store.ReadLogParams{After: q.after, Limit: q.limit}
	switch {
	case tenant != nil:
		read.Limit = store.MaxLogEntries // the position must not tell how many events of others there are
	case q.after == "" && (q.kind != "" || q.node != ""):
		read.Limit = store.MaxLogEntries // the newest that match may be any
	}
	page, err := h.log.page(r.Context(), read)
	if err != nil {
		return nil, logReadError(err, "after", q.after)
	}
	list := &wire.EventList{Events: []wire.Event{}, Next: q.after, Gap: page.Gap}
	for e := range search(r.Context(), page.Entries) {
		if !visibleEvent(e, tenant) {
			continue // it is about another tenant, or about the scheduler as a whole
		}
		if tenant != nil && q.after != "" && len(list.Events) == q.limit {
			return list, nil // the next request continues after the last one that is listed
		}
		list.Next = e.ID
		if q.matches(e) {
			list.Events = append(list.Events, viewEvent(e))
		}
	}
	list.Events = list.Events[max(0, len(list.Events)-q.limit):]
	return list, nil
}
