package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxLiveStreams bounds the streams of an instance: one for each open dashboard.
	maxLiveStreams = 256
	// liveInterval is the time between two messages of a stream, which has what is new since the one before.
	liveInterval = 250 * time.Millisecond
	// liveCheck is how often the credential of a stream is checked.
	liveCheck = time.Second
)

func (h *eventHandlers) liveRoute() route {
	return route{
		method: "GET", path: "/v1/live", rule: readers, tag: "operations", summary: "Follow what a dashboard shows", stream: true,
		description: "Server-sent events, at most four messages a second. overview: the newest figures of the fleet, as in GET " +
			"/api/v1/series, for callers that see all tenants. " +
			"events: new entries of the event log, as a list. status: the instance that answers and whether it can reach the store, at " +
			"the beginning and when that changes. gap: entries were lost; read GET /v1/events. The stream ends when the credential is " +
			"not valid any more or has another role or tenant, and when the instance stops; a browser opens it again.",
		handler: handler{serve: h.serveLive}, media: "text/event-stream", codes: []wire.Code{wire.RateLimited},
		params: []param{{name: "seconds", description: "For how long, 3600 by default and at most. 0: only what there is now.",
			kind: "integer"}},
	}
}

func (h *eventHandlers) serveLive(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	lasts, e := readSeconds(q, maxStream)
	for name := range q {
		if name != "seconds" {
			e = wire.Invalid(wire.Quote(name), "is not known; use seconds")
		}
	}
	if e != nil {
		writeWireError(w, e)
		return
	}
	end, e := h.pages.begin(r.Context())
	if e != nil {
		writeWireError(w, e)
		return
	}
	defer end()
	tenant := visibleTenant(r.Context())
	h.feed.refresh(r.Context())
	number, point := h.feed.begin(), int64(0)
	out := beginEvents(w)
	checked, status := time.Now(), []byte(nil)
	for ends := checked.Add(lasts); !h.stopping.Load(); {
		if time.Since(checked) >= liveCheck {
			if !h.access.stillAdmits(r) {
				return // it was revoked, has expired or logged out, or may see something else now
			}
			checked = time.Now()
		}
		h.feed.refresh(r.Context())
		var buf bytes.Buffer
		if now := h.status(); !bytes.Equal(now, status) {
			writeEvent(&buf, "status", now)
			status = now
		}
		if tenant == nil {
			var data []byte
			if point, data = h.feed.newPoint(point); data != nil {
				writeEvent(&buf, "overview", data)
			}
		}
		events, next, gap := h.feed.since(number, tenant)
		number = next
		if gap {
			writeEvent(&buf, "gap", []byte("{}"))
		}
		if len(events) > 0 {
			writeEvent(&buf, "events", []byte("["), bytes.Join(events, []byte(",")), []byte("]"))
		}
		if !out.send(buf.Bytes()) || !time.Now().Before(ends) || !run.Sleep(r.Context(), liveInterval) {
			return
		}
	}
}

// status returns the state of this instance, encoded.
func (h *eventHandlers) status() []byte {
	data, err := json.Marshal(wire.LiveStatus{Instance: string(h.instance()), StoreReachable: h.reachable()})
	if err != nil {
		return nil // of plain fields: it cannot fail
	}
	return data
}

// writeEvent appends a server-sent event whose data is JSON in one line.
func writeEvent(buf *bytes.Buffer, name string, data ...[]byte) {
	buf.WriteString("event: " + name + "\ndata: ")
	for _, part := range data {
		buf.Write(part)
	}
	buf.WriteString("\n\n")
}
