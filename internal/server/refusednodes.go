package server

import (
	"cmp"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// maxRefused is how many refusals an instance keeps, by address and reason, and how many a list has.
const maxRefused = 200

// refusedNodes are the last registrations and connections of nodes that this instance has refused. Nothing of what a node sent is kept but
// its name.
type refusedNodes struct {
	instance      func() core.InstanceID
	registrations *prometheus.CounterVec
	isRevoked     func(core.NodeID) bool
	log           *slog.Logger

	mu      run.Mutex
	entries map[refusalKey]*refusal
	logged  time.Time // the last line
}

// minRefusalLine is the least time between two lines of the log about refusals.
const minRefusalLine = 100 * time.Millisecond

// refusal is an entry of the list.
type refusal struct {
	wire.RefusedNode
	last time.Time
}

// refusalKey is what a refusal is counted by.
type refusalKey struct {
	address string
	code    wire.Code
	field   string
}

// record records that a node was refused. A refusal is logged when it is the first of its kind, or the first for a minute.
func (r *refusedNodes) record(remote, node string, e *wire.Error) {
	if e.Code == wire.SchedulerDependencyDown {
		return // it says nothing about the node
	}
	address := socket.PeerAddr(remote).String()
	if !core.ValidID(node) {
		node = ""
	}
	if status := refusalStatus(e.Code); status != "" && (e.Code != wire.Forbidden || !r.isRevoked(core.NodeID(node))) {
		r.registrations.WithLabelValues(status).Inc()
	}
	field, _, _ := strings.Cut(e.Field, "[")
	key, now := refusalKey{address, e.Code, field}, time.Now()
	r.mu.Lock()
	entry := r.entries[key]
	if entry == nil {
		if len(r.entries) >= maxRefused {
			r.dropOldest()
		}
		entry = &refusal{RefusedNode: wire.RefusedNode{
			Address: address, Reason: e.Code, Field: field, Advice: refusalAdvice(e.Code, field), FirstMS: now.UnixMilli(),
			Instance: string(r.instance()),
		}}
		r.entries[key] = entry
	}
	logged := entry.Count > 0 && now.Sub(entry.last) < time.Minute || now.Sub(r.logged) < minRefusalLine
	if !logged {
		r.logged = now
	}
	entry.Count++
	entry.last, entry.LastMS, entry.NodeID = now, now.UnixMilli(), cmp.Or(node, entry.NodeID)
	r.mu.Unlock()
	if !logged {
		r.log.Warn("a node was refused; lingua nodes --refused lists more", "address", address, "node_id", node, "reason", e.Code, "field",
			field)
	}
}

// dropOldest drops the refusal that was repeated longest ago. The lock is held.
func (r *refusedNodes) dropOldest() {
	oldest := slices.MinFunc(slices.Collect(maps.Keys(r.entries)), func(a, b refusalKey) int {
		return r.entries[a].last.Compare(r.entries[b].last)
	})
	delete(r.entries, oldest)
}

// all returns copies of the refusals.
func (r *refusedNodes) all() []wire.RefusedNode {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]wire.RefusedNode, 0, len(r.entries))
	for _, entry := range r.entries {
		list = append(list, entry.RefusedNode)
	}
	return list
}

// refusalStatus is the label of node_registration_total for a refusal; empty for those that the registry counts.
func refusalStatus(code wire.Code) string {
	switch code {
	case wire.InvalidRequest, wire.UnsupportedMediaType, wire.PayloadTooLarge:
		return telemetry.RegistrationInvalid
	case wire.Unauthorized, wire.Forbidden:
		return telemetry.RegistrationDenied
	case wire.RateLimited:
		return telemetry.RegistrationLimited
	}
	return ""
}

// refusalAdvice says what to change after a refusal.
func refusalAdvice(code wire.Code, field string) string {
	switch code {
	case wire.InvalidRequest:
		if field == "" {
			return "send what docs/node-protocol.md describes: a WebSocket handshake, and then one JSON object"
		}
		return "correct the field " + field + ": docs/node-protocol.md says what it may be"
	case wire.Unauthorized:
		return "give the node a key of this scheduler, as Authorization: Bearer KEY: docs/credentials.md"
	case wire.Forbidden:
		return "give the node a key for its name and tenant, or lift the revocation: lingua revoke list"
	case wire.NameInUse:
		return "give each node its own name, or send the token of its last registration"
	case wire.RateLimited:
		return "raise the limit of the key or of the address, or let the nodes retry with a backoff"
	}
	return "see docs/codes.md"
}

func (h *nodeHandlers) refusedRoute() route {
	return route{
		method: "GET", path: "/v1/nodes/refused", rule: operators, peers: true, tag: "nodes",
		summary: "List nodes that were refused, the latest first",
		description: "The last registrations and connections of nodes that the instances have refused since they started, at most 200, " +
			"by address and reason, with what to change.",
		handler: handle(h.responder, h.showRefused),
		params:  []param{{name: "scope", description: "here: only those that the answering instance has refused.", kind: "string"}},
	}
}

func (h *nodeHandlers) showRefused(r *http.Request) (*wire.RefusedNodeList, error) {
	for name := range r.URL.Query() {
		if name != "scope" {
			return nil, wire.Invalid(wire.Quote(name), "is not known; use scope")
		}
	}
	out := &wire.RefusedNodeList{Refused: h.refused.all()}
	if r.URL.Query().Get("scope") != scopeHere {
		out.Partial, _ = fetchFromPeers(h.peers, r,
			func(found *wire.RefusedNodeList) { out.Refused = append(out.Refused, found.Refused...) })
	}
	slices.SortFunc(out.Refused, func(a, b wire.RefusedNode) int {
		return cmp.Or(cmp.Compare(b.LastMS, a.LastMS), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Field, b.Field))
	})
	out.Refused = out.Refused[:min(len(out.Refused), maxRefused)]
	return out, nil
}
