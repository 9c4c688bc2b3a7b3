package server

import (
	"net/http"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func (h *credentialHandlers) auditRoute() route {
	return route{
		method: "GET", path: "/v1/audit", rule: readers, tag: "operation", summary: "Read the audit log of all instances, the oldest first",
		description: "Changes of state by people and keys, and denials; about 10,000 entries are kept. Without after, the newest entries " +
			"are returned. A key of a tenant sees the entries of its tenant. An entry that could not be written at once may appear twice.",
		handler: handle(h.responder, h.listAudit),
		params: []param{
			{name: "after", description: "Only entries after this position: next of the answer before.", kind: "string"},
			{name: "key", description: "Only entries about this key, by its name.", kind: "string"},
			{name: "action", description: "Only entries with this action, such as node.drain.", kind: "string"},
			{name: "outcome", description: "Only entries with this outcome: ok, denied or failed.", kind: "string"},
			{name: "limit", description: "The maximum number of entries, 100 by default, at most 1000.", kind: "integer"},
		},
		codes: []wire.Code{wire.SchedulerDependencyDown},
	}
}

// auditQuery is what a request asks for.
type auditQuery struct {
	after, key, action string
	outcome            store.AuditOutcome
	tenant             *core.TenantID
	limit              int
}

func readAuditQuery(r *http.Request) (auditQuery, *wire.Error) {
	q, values := auditQuery{limit: defaultEvents, tenant: visibleTenant(r.Context())}, r.URL.Query()
	for name := range values {
		switch text := values.Get(name); name {
		case "after":
			q.after = text
		case "key":
			q.key = text
		case "action":
			q.action = text
		case "outcome":
			if q.outcome = store.AuditOutcome(text); !slices.Contains(store.AuditOutcomes(), q.outcome) {
				return q, wire.Invalid("outcome", "there is no outcome %s; one of %v", wire.Quote(text), store.AuditOutcomes())
			}
		case "limit":
			var e *wire.Error
			if q.limit, e = readLogLimit(text); e != nil {
				return q, e
			}
		default:
			return q, wire.Invalid(wire.Quote(name), "is not known; use after, key, action, outcome or limit")
		}
	}
	return q, nil
}

// filters reports whether some entries do not match.
func (q *auditQuery) filters() bool {
	return q.key != "" || q.action != "" || q.outcome != "" || q.tenant != nil
}

func (q *auditQuery) matches(e *store.AuditEntry) bool {
	return (q.key == "" || e.Key == q.key) && (q.action == "" || e.Action == q.action) && (q.outcome == "" || e.Outcome == q.outcome) &&
		(q.tenant == nil || e.Tenant == *q.tenant)
}

func (h *credentialHandlers) listAudit(r *http.Request) (*wire.AuditList, error) {
	q, e := readAuditQuery(r)
	if e != nil {
		return nil, e
	}
	read := store.ReadLogParams{After: q.after, Limit: q.limit}
	if q.filters() {
		read.Limit = store.MaxLogEntries // the log has no index, and this instance has a copy
	}
	page, err := h.audit.page(r.Context(), read)
	if err != nil {
		return nil, logReadError(err, "after", q.after)
	}
	list := &wire.AuditList{Entries: []wire.AuditEntry{}, Next: q.after, Gap: page.Gap}
	for entry := range search(r.Context(), page.Entries) {
		if q.after != "" && len(list.Entries) == q.limit {
			return list, nil // the next request continues after the last one that is listed
		}
		if q.tenant != nil && entry.Tenant != *q.tenant {
			continue // also the position must not tell that there is such an entry
		}
		list.Next = entry.ID
		if q.matches(entry) {
			list.Entries = append(list.Entries, viewAuditEntry(entry, q.tenant != nil))
		}
	}
	list.Entries = list.Entries[max(0, len(list.Entries)-q.limit):]
	return list, nil
}

// viewAuditEntry is an entry as the API shows it. From where operators work does not concern a tenant, and neither does how much of others
// was left out: behind a load balancer all have one address.
func viewAuditEntry(e *store.AuditEntry, toTenant bool) wire.AuditEntry {
	v := wire.AuditEntry{
		ID: e.ID, AtMS: e.At.UnixMilli(), Key: e.Key, Role: e.Role, TenantID: string(e.Tenant), Action: e.Action, Object: e.Object,
		Outcome: string(e.Outcome), Reason: e.Reason, RequestID: e.Request, Address: e.Address, Instance: string(e.Instance),
		Suppressed: e.Suppressed,
	}
	if toTenant {
		v.Suppressed = 0
		if e.Role == string(auth.Operator) {
			v.Address = ""
		}
	}
	return v
}
