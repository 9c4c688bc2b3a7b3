package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxEventStreams bounds the streams of an instance: each reads the log once a second.
	maxEventStreams = 64
	// streamInterval is the time between two reads of the log.
	streamInterval = time.Second
	// defaultStream and maxStream are how long a stream lasts. A browser opens it again, from where it was.
	defaultStream = 5 * time.Minute
	maxStream     = time.Hour
)

func (h *eventHandlers) streamRoute() route {
	return route{
		method: "GET", path: "/v1/events/stream", rule: readers, tag: "operation", summary: "Follow the event log of the fleet",
		stream: true,
		description: "Server-sent events: each has the id of the event, its kind as the name of the event, and the event as JSON, as in " +
			"GET /v1/events. An event named gap says that events were dropped from the log before they could be sent. " +
			"Without a position, only events from now on are sent. A stream ends after some minutes, when its credential is not valid " +
			"any more, or when the instance stops; a browser opens it again with Last-Event-ID.",
		handler: handler{serve: h.serveStream}, media: "text/event-stream",
		params: []param{
			{name: "after", description: "Only events after this position: the id of an event, or next of GET /v1/events. The header " +
				"Last-Event-ID wins over it.", kind: "string"},
			{name: "kind", description: "Only events of this kind.", kind: "string"},
			{name: "node", description: "Only events about this node.", kind: "string"},
			{name: "seconds", description: "For how long, 300 by default, at most 3600. 0: only what is in the log now.", kind: "integer"},
		},
		codes: []wire.Code{wire.RateLimited, wire.SchedulerDependencyDown},
	}
}

// eventStream is one stream.
type eventStream struct {
	events journal.Log[store.Event]
	writer *eventWriter
	tenant *core.TenantID // whose events are sent; nil: all
	query  eventQuery
	after  string // the position up to which the log was read
}

func (h *eventHandlers) serveStream(w http.ResponseWriter, r *http.Request) {
	s := &eventStream{events: h.events, tenant: visibleTenant(r.Context())}
	lasts, e := s.readQuery(r)
	if e != nil {
		writeWireError(w, e)
		return
	}
	end, e := h.streams.begin(r.Context())
	if e != nil {
		writeWireError(w, e)
		return
	}
	defer end()
	first, e := s.begin(r.Context())
	if e != nil {
		writeWireError(w, e)
		return
	}
	s.writer = beginEvents(w)
	ends := time.Now().Add(lasts)
	for page := first; s.send(page); {
		if !time.Now().Add(streamInterval).Before(ends) || h.stopping.Load() || !run.Sleep(r.Context(), streamInterval) {
			return
		}
		if !h.access.stillAdmits(r) {
			return // it was revoked or has expired, or may see something else now
		}
		if next, err := s.read(r.Context(), maxEvents); err == nil { // else it is read at the next time
			page = next
		} else {
			page = journal.Page[store.Event]{}
		}
	}
}

// readQuery reads what the request asks for, and for how long.
func (s *eventStream) readQuery(r *http.Request) (lasts time.Duration, e *wire.Error) {
	q := r.URL.Query()
	if lasts, e = readSeconds(q, defaultStream); e != nil {
		return 0, e
	}
	for name := range q {
		if !slices.Contains([]string{"after", "kind", "node", "seconds"}, name) {
			return 0, wire.Invalid(wire.Quote(name), "is not known; use after, kind, node or seconds")
		}
	}
	q.Del("seconds")
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	if s.query, e = readEventQuery(r); e != nil {
		return 0, e
	}
	s.after = s.query.after
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		s.after = id
	}
	return lasts, nil
}

// readSeconds reads how long a stream is to last.
func readSeconds(q url.Values, otherwise time.Duration) (time.Duration, *wire.Error) {
	text := q.Get("seconds")
	if text == "" {
		return otherwise, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 0 || seconds > int(maxStream/time.Second) {
		return 0, wire.Invalid("seconds", "must be a number between 0 and %d", int(maxStream/time.Second))
	}
	return time.Duration(seconds) * time.Second, nil
}

// begin reads the events after the position, or finds the end of the log if there is none.
func (s *eventStream) begin(ctx context.Context) (first journal.Page[store.Event], _ *wire.Error) {
	if s.after != "" {
		page, err := s.read(ctx, maxEvents)
		if err != nil {
			return page, logReadError(err, "after", s.after)
		}
		return page, nil
	}
	if _, err := s.read(ctx, 1); err != nil {
		return first, store.Unavailable()
	}
	return first, nil
}

// read reads the log from where it was read to.
func (s *eventStream) read(ctx context.Context, limit int) (journal.Page[store.Event], error) {
	page, err := s.events.Read(ctx, store.ReadLogParams{After: s.after, Limit: limit})
	if err == nil && len(page.Entries) > 0 {
		s.after = page.Entries[len(page.Entries)-1].ID
	}
	return page, err
}

// send sends the events of a page that the caller asked for and may see, or a comment if nothing was sent for a while. It reports whether
// the client is still there.
func (s *eventStream) send(page journal.Page[store.Event]) bool {
	var buf bytes.Buffer
	if page.Gap {
		buf.WriteString("event: gap\ndata: {}\n\n")
	}
	for i := range page.Entries {
		e := &page.Entries[i]
		if !visibleEvent(e, s.tenant) || s.query.kind != "" && string(e.Kind) != s.query.kind || s.query.node != "" &&
			string(e.Node) != s.query.node {
			continue
		}
		data, err := json.Marshal(viewEvent(e))
		if err != nil {
			continue // of plain fields: it cannot fail
		}
		buf.WriteString("id: " + e.ID + "\nevent: " + string(e.Kind) + "\ndata: ")
		buf.Write(data)
		buf.WriteString("\n\n")
	}
	return s.writer.send(buf.Bytes())
}
