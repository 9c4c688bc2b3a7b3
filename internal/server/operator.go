package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/wire"
)

// operatorHandlers handle the requests of operators about the system as a whole: directions, explanations,
// instances, dead letters and the configuration.
type operatorHandlers struct {
	responder
	dispatcher  *dispatch.Dispatcher
	registry    *nodes.Registry
	bus         *bus.Bus
	read        *convert.Reader
	catalog     *health.Catalog
	stats       StatsReader
	directions  *nodes.DirectionLists
	config      *config.Reloader
	auth        *auth.Authenticator
	revocations *revocation.Follower
}

func (h *operatorHandlers) routes() []route {
	return append(h.configRoutes(), []route{
		{
			method: "POST", path: "/v1/dispatch/explain", rule: jobReaders, tag: "dispatch",
			summary: "Explain how a dispatch would be decided",
			description: "Takes the body of a dispatch and lists for each node why it would not be chosen, with its capability pool and " +
				"the services that matter: how long they are still marked as unavailable, and their names and versions at the ModelHub. " +
				"If all are full, it says what the wait would be. Nothing is reserved.",
			handler: described[wire.DispatchRequest](handleBody(h.responder, h.explain)), codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/directions", rule: readers, tag: "dispatch",
			summary: "List the directions, the capacity of each and the demand for it",
			description: "Directions that nodes serve, and, without region and node_id and for callers of all tenants, those that were " +
				"requested in the last 5 minutes. In a fleet of thousands of nodes the answer may be some seconds old.",
			handler: handle(h.responder, h.listDirections), codes: []wire.Code{wire.SchedulerDependencyDown},
			params: listParams("1000",
				param{name: "language", description: "Only directions from or to this language.", kind: "string"},
				param{name: "region", description: "Count only nodes of this region.", kind: "string"},
				param{name: "node_id", description: "Count only this node.", kind: "string"},
			),
		},
		{
			method: "GET", path: "/v1/instances", rule: fleetReaders, tag: "instances", summary: "List the instances that share the fleet",
			description: "Includes dead instances whose inboxes are not taken over yet.",
			handler:     handle(h.responder, h.instances), codes: []wire.Code{wire.InvalidRequest, wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/dlq", rule: readers, tag: "instances", summary: "List dead letters, or show one",
			description: "Dead letters are messages between instances that could not be handled. The body of a message is shown only " +
				"when it is requested by its id.",
			handler: handle(h.responder, h.deadLetters),
			params: []param{
				{name: "id", description: "Only this one, with its body.", kind: "string"},
				{name: "limit", description: "The maximum number of entries, 100 by default.", kind: "integer"},
				describeText(actionReadDeadLetter),
			},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/dlq/replay", rule: operators, action: "dlq.replay", tag: "instances", summary: "Replay dead letters",
			description: "Each is put into the inbox of the instance that is asked, with its original age. An expired one stays a " +
				"dead letter.",
			handler: handleBody(h.responder, h.forDeadLetters((*bus.Bus).Replay)), codes: []wire.Code{wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/dlq/purge", rule: operators, action: "dlq.purge", tag: "instances", summary: "Delete dead letters",
			handler: handleBody(h.responder, h.forDeadLetters((*bus.Bus).Purge)), codes: []wire.Code{wire.SchedulerDependencyDown},
		},
	}...)
}

// maxExplained is the maximum number of nodes that an explanation lists.
const maxExplained = 1000

func (h *operatorHandlers) explain(ctx context.Context, given *compat.DispatchRequest) (*wire.ExplainResponse, error) {
	in := given.Translate()
	spec, e := h.read.Spec(in)
	if e != nil {
		return nil, e
	}
	if spec.Tenant, e = tenantOf(ctx, in.TenantID); e != nil {
		return nil, e
	}
	x, err := h.dispatcher.Explain(ctx, dispatch.ExplainParams{Spec: spec, Limit: maxExplained, OnlyTenant: !principalOf(ctx).AllTenants()})
	if err != nil {
		return nil, err
	}
	out := &wire.ExplainResponse{
		SrcLang: string(spec.Direction.Src), TgtLang: string(spec.Direction.Tgt),
		Verdict: cmp.Or(string(x.Verdict), "OK"), Detail: x.Detail, Truncated: x.Truncated,
		Reasons: make(map[string]int, len(x.Reasons)), Nodes: make([]wire.ExplainNode, len(x.Nodes)),
		BoundPool: string(x.BoundPool), Pools: viewExplainedPools(x.Pools), PoolsTruncated: x.PoolsTruncated,
		Wait: viewExplainedWait(x.Wait),
	}
	for reason, n := range x.Reasons {
		out.Reasons[string(reason)] = n
	}
	for i, n := range x.Nodes {
		out.Nodes[i] = wire.ExplainNode{
			NodeID: string(n.Node.ID), PoolID: string(n.Pool), Eligible: n.Reason == core.ReasonNone, Reason: string(n.Reason),
			Preference: n.Reason.Soft(), Fallback: n.Fallback,
			InFlight: n.InFlight(), MaxConcurrentJobs: n.Node.MaxJobs, Services: h.viewServices(n.Services),
			Detail: convert.AdmissionDetail(n.Node, n.At), Admission: convert.Admission(n.Node, n.At),
		}
	}
	if h.catalog.State().Configured {
		for _, required := range spec.Options.RequiredServices {
			id, _ := core.CutRequired(required)
			out.RequiredServices = append(out.RequiredServices, h.catalog.Describe(id))
		}
	}
	return out, nil
}

// viewServices returns services of a node as an explanation shows them, with what the catalog has about them.
func (h *operatorHandlers) viewServices(services []dispatch.ExplainedService) []wire.ExplainService {
	var out []wire.ExplainService
	for _, s := range services {
		view := wire.ExplainService{
			ServiceID: s.ID, Version: s.Version, Type: s.Type, Status: s.Status.String(), MarkedMS: s.MarkedFor.Milliseconds(),
		}
		if listed, ok := h.catalog.Lookup(s.ID); ok {
			view.Name = listed.Name
			if len(listed.Versions) > 0 {
				view.LatestVersion = listed.Versions[0]
			}
		}
		out = append(out, view)
	}
	return out
}

// listDirections lists the directions, with the nodes and slots of each.
func (h *operatorHandlers) listDirections(r *http.Request) (*wire.DirectionList, error) {
	q, e := parseList(r.URL.Query(), "directions", 2, maxPage, "language", "region", "node_id")
	if e != nil {
		return nil, e
	}
	f := nodes.DirectionFilter{Region: q.Get("region"), Node: core.NodeID(q.Get("node_id")), Tenant: visibleTenant(r.Context())}
	if e := convert.CheckOptionalID("node_id", string(f.Node)); e != nil {
		return nil, e
	}
	if f.Lang, e = h.read.OptionalLang("language", q.Get("language")); e != nil {
		return nil, e
	}
	var after core.Direction
	if q.after != nil {
		after = core.Direction{Src: core.Lang(q.after[0]), Tgt: core.Lang(q.after[1])}
	}
	if f.Tenant == nil && f.Region == "" && f.Node == "" {
		f.Also = h.stats.Demanded()
	}
	list, more, err := h.directions.List(r.Context(), f, after, q.limit)
	if err != nil {
		return nil, err
	}
	out := &wire.DirectionList{Directions: make([]wire.Direction, len(list)), Truncated: more}
	for i := range list {
		out.Directions[i] = h.viewDirection(&list[i], f.Tenant == nil)
	}
	if more && len(list) > 0 {
		last := list[len(list)-1]
		out.NextCursor = encodeCursor("directions", string(last.Src), string(last.Tgt))
	}
	return out, nil
}

// viewDirection is a direction as the API shows it, with the demand for it unless the caller is of one tenant.
func (h *operatorHandlers) viewDirection(d *nodes.DirectionCapacity, withDemand bool) wire.Direction {
	v := wire.Direction{
		SrcLang: string(d.Src), TgtLang: string(d.Tgt), Nodes: d.Nodes, Ready: d.Ready, Capacity: d.Capacity, InFlight: d.InFlight,
		Free: max(0, d.Capacity-d.InFlight),
	}
	for _, g := range d.Uncovered {
		v.Uncovered = append(v.Uncovered, wire.CoverGroup{PoolID: string(g.Pool), TenantID: string(g.Tenant)})
	}
	if demand, known := h.stats.Demand(d.Direction); known && withDemand {
		v.Jobs5m, v.Refused5m, v.Waiting, v.WaitP95MS = &demand.Jobs, &demand.Refused, &demand.Waiting, demand.WaitP95
	}
	return v
}

// instances lists the instances that share the fleet.
func (h *operatorHandlers) instances(r *http.Request) (*wire.InstanceList, error) {
	for name := range r.URL.Query() {
		return nil, wire.Invalid(name, "is not known; this list has no filters")
	}
	peers, err := h.bus.Peers(r.Context())
	if err != nil {
		return nil, h.storeDown("instances", err)
	}
	list := wire.InstanceList{Instances: make([]wire.Instance, len(peers))}
	for i, p := range peers {
		list.Instances[i] = wire.Instance{
			InstanceID: p.Name, Incarnation: string(p.ID), Present: p.Present, This: p.This, Draining: p.Draining, AdvertiseURL: p.URL,
			Version: p.Version, KeysDigest: p.KeysDigest, StartedMS: p.Started, Nodes: p.Nodes, Sessions: p.Sessions, Jobs: p.Jobs,
			Inbox: p.Inbox, Pending: p.Pending, DeadLetters: p.DeadLetters, Takeovers: p.Takeovers,
		}
	}
	return &list, nil
}

const (
	defaultDeadLetters = 100  // listed if the request names no limit
	maxDeadLetters     = 1000 // listed, replayed or purged by one request
)

// actionReadDeadLetter is the action of a request for the body of a dead letter.
const actionReadDeadLetter = "dlq.read_text"

// deadLetters lists dead letters, or shows one with its body.
func (h *operatorHandlers) deadLetters(r *http.Request) (*wire.DeadLetterList, error) {
	q, limit := r.URL.Query(), defaultDeadLetters
	for name := range q {
		if name != "id" && name != "limit" && name != textParam {
			return nil, wire.Invalid(name, "is not known; use id, limit or "+textParam)
		}
	}
	if e := readText(r.Context(), q, actionReadDeadLetter); e != nil {
		return nil, e
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxDeadLetters {
			return nil, wire.Invalid("limit", "must be a number between 1 and %d", maxDeadLetters)
		}
		limit = n
	}
	if id := q.Get("id"); id != "" {
		d, err := h.bus.DeadLetter(r.Context(), id)
		if err == nil && !h.seesDeadLetter(r.Context(), &d) {
			err = bus.ErrNoDeadLetter
		}
		if err != nil {
			return nil, h.errDeadLetter(id, err)
		}
		callOf(r.Context()).object = "dlq/" + d.Name()
		return &wire.DeadLetterList{DeadLetters: []wire.DeadLetter{viewDeadLetter(&d, showsText(r.Context()))}, Total: 1}, nil
	}
	if q.Get(textParam) == "true" {
		return nil, wire.Invalid("id", "is missing: the body of a message is shown for one at a time")
	}
	all := principalOf(r.Context()).AllTenants()
	read := limit
	if !all {
		read = maxDeadLetters // those of the tenant are among them
	}
	dead, total, err := h.bus.DeadLetters(r.Context(), read)
	if err != nil {
		return nil, h.storeDown("dlq", err)
	}
	if !all {
		dead = slices.DeleteFunc(dead, func(d bus.DeadLetter) bool { return !h.seesDeadLetter(r.Context(), &d) })
		total = len(dead)
		dead = dead[:min(limit, total)]
	}
	list := wire.DeadLetterList{DeadLetters: make([]wire.DeadLetter, len(dead)), Total: total}
	for i := range dead {
		list.DeadLetters[i] = viewDeadLetter(&dead[i], false)
	}
	return &list, nil
}

// seesDeadLetter reports whether the caller may see a dead letter: a caller of one tenant sees those about the sessions and the nodes
// of its tenant.
func (h *operatorHandlers) seesDeadLetter(ctx context.Context, d *bus.DeadLetter) bool {
	p := principalOf(ctx)
	if p.AllTenants() {
		return true
	}
	var about struct {
		Session *core.SessionRef `json:"session"`
		Node    core.NodeID      `json:"node"`
	}
	if json.Unmarshal(d.Body, &about) != nil {
		return false
	}
	if about.Session != nil {
		return about.Session.Tenant == p.Tenant
	}
	status, err := h.registry.Node(ctx, about.Node)
	return err == nil && status.Node.Tenant == p.Tenant
}

// viewDeadLetter is a dead letter as the API shows it. The body may contain the text of an utterance, so it is shown only when the
// request names the id.
func viewDeadLetter(d *bus.DeadLetter, withBody bool) wire.DeadLetter {
	body := d.DeadLetter.Body
	v := wire.DeadLetter{
		ID: d.Name(), Incarnation: string(d.Inbox), Kind: string(d.Kind), From: string(d.From), Reason: d.Reason,
		Deliveries: d.Deliveries, AgeMS: d.Age.Milliseconds(), Bytes: len(body),
	}
	switch {
	case !withBody:
	case json.Valid(body):
		v.Body = body
	default:
		v.Text = string(body)
	}
	return v
}

// errDeadLetter is the answer when a dead letter could not be found, replayed or purged.
func (h *operatorHandlers) errDeadLetter(id string, err error) *wire.Error {
	switch {
	case errors.Is(err, bus.ErrNoDeadLetter):
		return wire.FieldErrorf(wire.NotFound, "id", "there is no dead letter %q, or not any more", id)
	case errors.Is(err, bus.ErrExpired):
		return wire.FieldErrorf(wire.InvalidRequest, "id", "the dead letter has expired, and would be dropped: purge it")
	case errors.Is(err, bus.ErrAbsent):
		return wire.Errorf(wire.SchedulerDependencyDown,
			"this instance does not count as present and has no inbox: try again, or ask another")
	case errors.Is(err, bus.ErrFull):
		return wire.Errorf(wire.SchedulerDependencyDown,
			"the inbox of this instance is full: try again when it has handled some messages, or ask another")
	}
	return h.storeDown("dlq", err)
}

// forDeadLetters is a handler that applies do to dead letters: to those that the request names, or to all.
func (h *operatorHandlers) forDeadLetters(do func(*bus.Bus, context.Context, string) error) func(context.Context,
	*wire.DeadLettersRequest) (*wire.DeadLettersResponse, error) {
	return func(ctx context.Context, in *wire.DeadLettersRequest) (*wire.DeadLettersResponse, error) {
		ids := in.IDs
		switch {
		case in.All && len(ids) > 0:
			return nil, wire.Invalid("ids", "give ids, or all, not both")
		case !in.All && len(ids) == 0:
			return nil, wire.Invalid("ids", "is missing: give ids, or all")
		case len(ids) > maxDeadLetters:
			return nil, wire.Invalid("ids", "has %d entries; the maximum is %d", len(ids), maxDeadLetters)
		case in.All:
			dead, _, err := h.bus.DeadLetters(ctx, maxDeadLetters)
			if err != nil {
				return nil, h.storeDown("dlq", err)
			}
			for i := range dead {
				ids = append(ids, dead[i].Name())
			}
		}
		out := wire.DeadLettersResponse{Done: []string{}}
		for _, id := range ids {
			err := do(h.bus, ctx, id)
			if err == nil {
				out.Done = append(out.Done, id)
				continue
			}
			if out.Failed == nil {
				out.Failed = make(map[string]string)
			}
			out.Failed[id] = h.errDeadLetter(id, err).Detail
		}
		c := callOf(ctx)
		c.object = fmt.Sprintf("dlq/%d messages", len(ids))
		if len(out.Failed) > 0 {
			c.reason = fmt.Sprintf("%d of %d failed", len(out.Failed), len(ids))
		}
		return &out, nil
	}
}
