package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/wire"
)

var fromParam = param{name: "from", description: "Only points after this time, in Unix milliseconds: at_ms of the last one that is known.",
	kind: "integer"}

func (h *nodeHandlers) seriesRoute() route {
	return route{
		method: "GET", path: "/v1/nodes/{id}/series", rule: readers, peers: true, tag: "nodes",
		summary: "Show figures of a node over the last hour",
		description: "A point every 5 s, from the memory of the instances: each counts the jobs whose end it decided. An instance that " +
			"does not answer within 2 s is named as incomplete.",
		handler: handle(h.responder, h.showSeries),
		params: []param{
			idParam("The node's name."), fromParam,
			{name: "scope", description: "here: only what this instance has seen. By default the other instances are asked, too.",
				kind: "string"},
		},
		codes: []wire.Code{wire.NotFound},
	}
}

// readSeriesQuery parses the query of a request for a series, which may have these parameters.
func readSeriesQuery(r *http.Request, known ...string) (from time.Time, _ *wire.Error) {
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains(known, name) {
			return from, wire.Invalid("query", "there are no other parameters than %s", strings.Join(known, ", "))
		}
	}
	return readMillis(q, "from")
}

func (h *nodeHandlers) showSeries(r *http.Request) (*wire.NodeSeries, error) {
	id := core.NodeID(r.PathValue("id"))
	from, e := readSeriesQuery(r, "from", "scope")
	if e != nil {
		return nil, e
	}
	out, known := h.seriesHere(r.Context(), id, from)
	if r.URL.Query().Get("scope") == scopeHere {
		return out, nil
	}
	points := make(map[int64]wire.NodePoint, len(out.Points))
	for _, p := range out.Points {
		points[p.AtMS] = p
	}
	_, out.Incomplete = fetchFromPeers(h.peers, r, func(found *wire.NodeSeries) {
		for _, p := range found.Points {
			points[p.AtMS] = mergePoints(points[p.AtMS], p)
		}
		out.Failures = addFailures(out.Failures, found.Failures)
	})
	if !known && len(points) == 0 {
		return nil, nodes.UnknownNode(id)
	}
	out.Points = out.Points[:0]
	for _, at := range slices.Sorted(maps.Keys(points)) {
		out.Points = append(out.Points, points[at])
	}
	return out, nil
}

// here returns the points that this instance has of a node, and whether it knows the node. One of another tenant does not exist for the
// caller.
func (h *nodeHandlers) seriesHere(ctx context.Context, id core.NodeID, from time.Time) (out *wire.NodeSeries, known bool) {
	out = &wire.NodeSeries{NodeID: string(id), IntervalMS: stats.SeriesStep.Milliseconds(), Points: []wire.NodePoint{}}
	tenant, points, known := h.series.Points(id, from)
	if !known || !principalOf(ctx).SeesTenant(tenant) {
		return out, false
	}
	out.Points, out.Failures = points, h.series.Failures(id)
	return out, true
}

// addFailures adds the failures that another instance has counted.
func addFailures(to, from map[string]int) map[string]int {
	if to == nil {
		return from
	}
	for reason, n := range from {
		to[reason] += n
	}
	return to
}

// mergePoints adds what another instance has counted to a point. The state and the slots are those of the first, unless it is empty.
func mergePoints(a, b wire.NodePoint) wire.NodePoint {
	if a.AtMS == 0 {
		return b
	}
	if done := int64(a.Done + b.Done); done > 0 {
		a.MeanMS = (a.MeanMS*int64(a.Done) + b.MeanMS*int64(b.Done)) / done
	}
	a.Done += b.Done
	a.Failed += b.Failed
	if a.UsedSlots == nil {
		a.UsedSlots = b.UsedSlots
	}
	return a
}
