package server

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/wire"
)

// tableParams are the parameters of the node table.
var tableParams = []param{
	{name: "search", description: "Only nodes whose ids contain this, in any case; at most 128 characters.", kind: "string"},
	{name: "state", description: "Only nodes in this state: " + strings.Join(stats.NodeStates(), ", ") + ".", kind: "string"},
	{name: "language", description: "Only nodes that have this language, for any step.", kind: "string"},
	{name: "src_lang", description: "With tgt_lang: only nodes that serve this direction.", kind: "string"},
	{name: "tgt_lang", description: "With src_lang: only nodes that serve this direction.", kind: "string"},
	{name: "region", description: "Only nodes of this region.", kind: "string"},
	{name: "tenant_id", description: "Only nodes of this tenant.", kind: "string"},
	{name: "service", description: "Only nodes on which this service is installed: an id, or an id and the acceptable versions, such as " +
		"asr-large@2.1.", kind: "string"},
	{name: "pool_id", description: "Only nodes of this capability pool.", kind: "string"},
	{name: "sort", description: "By what the nodes are sorted: " + strings.Join(stats.SortNames(), ", ") + "; name by default.",
		kind: "string"},
	{name: "order", description: "asc, which is the default, or desc.", kind: "string"},
	{name: "offset", description: "How many of the matches are left out at the beginning.", kind: "integer"},
	{name: "limit", description: "The maximum number of rows, 200 by default, at most 1000.", kind: "integer"},
}

func (h *nodeHandlers) tableRoute() route {
	return route{
		method: "GET", path: "/v1/nodes/table", rule: readers, tag: "nodes", summary: "Search the node table",
		description: "The nodes as the answering instance knows them, at most about a second old. It reads nothing from the store: use " +
			"it to search, filter and sort large fleets, and GET /v1/nodes/{id} for one node. A node that is named table is shown by " +
			"GET /v1/nodes only.",
		handler: handle(h.responder, h.showTable), params: tableParams, codes: []wire.Code{wire.DeadlineExceeded},
	}
}

const (
	defaultTablePage = 200
	maxTableOffset   = 10_000_000
	maxSearch        = 128
	maxFilterText    = 512 // of the names of regions and services
)

func (h *nodeHandlers) showTable(r *http.Request) (*wire.NodeTable, error) {
	q, e := h.tableQuery(r)
	if e != nil {
		return nil, e
	}
	out, err := h.table.Read(r.Context(), q)
	if err != nil {
		return nil, wire.Errorf(wire.DeadlineExceeded, "the request ended before the table was made")
	}
	return out, nil
}

// query converts the query of a request. An unknown parameter is an error: ignored, it would select everything.
func (h *nodeHandlers) tableQuery(r *http.Request) (*stats.NodeQuery, *wire.Error) {
	values := r.URL.Query()
	for name := range values {
		if !slices.ContainsFunc(tableParams, func(p param) bool { return p.name == name }) {
			return nil, wire.Invalid("query", "there is no parameter %s; /openapi.yaml lists those that there are", wire.Quote(name))
		}
	}
	q := &stats.NodeQuery{
		Visible: visibleTenant(r.Context()), Search: values.Get("search"), State: values.Get("state"), Region: values.Get("region"),
		Service: values.Get("service"), Pool: core.PoolID(values.Get("pool_id")),
	}
	if len(q.Search) > maxSearch {
		return nil, wire.Invalid("search", "must be at most %d characters", maxSearch)
	}
	for name, text := range map[string]string{"region": q.Region, "service": q.Service} {
		if len(text) > maxFilterText {
			return nil, wire.Invalid(name, "must be at most %d characters", maxFilterText)
		}
	}
	for _, name := range []string{"pool_id", "tenant_id"} {
		if e := convert.CheckOptionalID(name, values.Get(name)); e != nil {
			return nil, e
		}
	}
	if states := stats.NodeStates(); q.State != "" && !slices.Contains(states, q.State) {
		return nil, wire.Invalid("state", "must be %s, not %q", strings.Join(states, ", "), wire.Quote(q.State))
	}
	if text := values.Get("tenant_id"); text != "" {
		var e *wire.Error
		if q.Tenant, e = tenantOf(r.Context(), text); e != nil {
			return nil, e
		}
	}
	if e := h.tableLanguages(values, q); e != nil {
		return nil, e
	}
	return q, readTablePage(values, q)
}

// readLanguages converts the parameters of a query that name languages.
func (h *nodeHandlers) tableLanguages(values url.Values, q *stats.NodeQuery) *wire.Error {
	var d core.Direction
	for name, into := range map[string]*core.Lang{"language": &q.Lang, "src_lang": &d.Src, "tgt_lang": &d.Tgt} {
		lang, e := h.read.OptionalLang(name, values.Get(name))
		if e != nil {
			return e
		}
		*into = lang
	}
	switch {
	case d == core.Direction{}:
		return nil
	case d.Src == "":
		return wire.Invalid("src_lang", "is missing: a direction has a source and a target")
	case d.Tgt == "":
		return wire.Invalid("tgt_lang", "is missing: a direction has a source and a target")
	}
	q.Serves = &d
	return nil
}

// readTablePage converts the parameters of a query that sort the rows and select a part of them.
func readTablePage(values url.Values, q *stats.NodeQuery) *wire.Error {
	if name := values.Get("sort"); name != "" {
		var known bool
		if q.Sort, known = stats.ParseSort(name); !known {
			return wire.Invalid("sort", "must be %s, not %q", strings.Join(stats.SortNames(), ", "), wire.Quote(name))
		}
	}
	switch order := values.Get("order"); order {
	case "", "asc":
	case "desc":
		q.Descending = true
	default:
		return wire.Invalid("order", "must be asc or desc, not %q", wire.Quote(order))
	}
	var e *wire.Error
	if q.Offset, e = readNumber(values, "offset", 0, 0, maxTableOffset); e != nil {
		return e
	}
	q.Limit, e = readNumber(values, "limit", defaultTablePage, 1, maxPage)
	return e
}

// readNumber parses a parameter that is a number, or absent.
func readNumber(values url.Values, name string, absent, lowest, highest int) (int, *wire.Error) {
	text := values.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < lowest || n > highest {
		return 0, wire.Invalid(name, "must be a number between %d and %d", lowest, highest)
	}
	return n, nil
}
