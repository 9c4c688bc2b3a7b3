package stats

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// SortKey is what rows are sorted by.
type SortKey uint8

// The sort keys.
const (
	ByName SortKey = iota
	ByState
	ByUsed
	BySlots
	ByLoad
	ByHeartbeat
	ByFailures
	sortKeys
)

var sortNames = [sortKeys]string{"name", "state", "used", "slots", "load", "heartbeat", "failures"}

// SortNames returns the names of the sort keys.
func SortNames() []string { return sortNames[:] }

// ParseSort parses the name of a sort key.
func ParseSort(name string) (SortKey, bool) {
	i := slices.Index(sortNames[:], name)
	return SortKey(max(i, 0)), i >= 0
}

// value returns what a row is sorted by. What is unknown comes before everything that is known.
func (r *row) value(key SortKey, position int) float64 {
	switch key {
	case ByState:
		return float64(r.state)
	case ByUsed:
		return float64(r.used)
	case BySlots:
		return float64(r.slots)
	case ByLoad:
		return float64(r.load)
	case ByHeartbeat:
		return float64(r.heartbeatMS)
	case ByFailures:
		return float64(r.failed)
	}
	return float64(position)
}

// NodeQuery selects rows. Zero fields select all.
type NodeQuery struct {
	Visible *core.TenantID // of whose nodes the caller learns; nil: of all
	Search  string         // part of the id, in any case
	State   string
	Lang    core.Lang       // for any step
	Serves  *core.Direction // exactly or by a language that includes it
	Region  string
	Tenant  core.TenantID
	Service string // that is installed: an id, or an id and the acceptable versions
	Pool    core.PoolID

	Sort          SortKey
	Descending    bool
	Offset, Limit int
}

// filter is a query that is prepared for the rows of a snapshot.
type filter struct {
	*NodeQuery
	search      string
	requirement core.Requirement
	byKind      bool
	kinds       []kindMatch // by the number of the kind
}

// kindMatch is whether a kind of nodes matches; 0: it was not compared yet.
type kindMatch uint8

const (
	kindMatches kindMatch = iota + 1
	kindDiffers
)

func (q *NodeQuery) filter(s *snapshot) filter {
	f := filter{NodeQuery: q, search: strings.ToLower(q.Search), byKind: q.Lang != "" || q.Serves != nil || q.Service != ""}
	if q.Serves != nil {
		f.requirement = core.NewRequirement(*q.Serves, false)
	}
	if f.byKind {
		f.kinds = make([]kindMatch, s.kinds)
	}
	return f
}

// matches reports whether a row is selected, whatever its state.
func (f *filter) matches(r *row) bool {
	n := r.node
	switch {
	case f.Region != "" && f.Region != n.Region, f.Tenant != "" && f.Tenant != n.Tenant, f.Pool != "" && f.Pool != r.pool,
		f.search != "" && !strings.Contains(r.lower, f.search):
		return false
	case !f.byKind:
		return true
	}
	m := &f.kinds[r.kindNumber]
	if *m == 0 {
		if *m = kindDiffers; f.matchesKind(r.kind) {
			*m = kindMatches
		}
	}
	return *m == kindMatches
}

// matchesKind reports whether the capabilities of a kind of nodes are selected.
func (f *filter) matchesKind(k *kind) bool {
	switch {
	case f.Lang != "" && !k.langs.Has(f.Lang), f.Serves != nil && f.requirement.Mismatch(k.capability) != core.ReasonNone:
		return false
	case f.Service != "":
		installed, _ := k.capability.ServiceState(f.Service)
		return installed
	}
	return true
}

// Read returns the rows that a query selects. The error is that of the context.
func (t *NodeTable) Read(ctx context.Context, q *NodeQuery) (*wire.NodeTable, error) {
	s, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	return s.read(q), nil
}

// read returns the rows that a query selects.
func (s *snapshot) read(q *NodeQuery) *wire.NodeTable {
	out := &wire.NodeTable{
		GeneratedMS: s.made.UnixMilli(), AgeMS: max(0, time.Since(s.made).Milliseconds()), Partial: s.partial, Offset: q.Offset,
		States: make(map[string]int), Rows: []wire.NodeRow{},
	}
	f, names := q.filter(s), NodeStates()
	var states [8]int
	positions := s.ordered(q.Sort, q.Descending)
	for _, i := range positions {
		r := &s.rows[i]
		if q.Visible != nil && *q.Visible != r.node.Tenant {
			continue
		}
		out.Total++
		if !f.matches(r) {
			continue
		}
		states[r.state]++
		if q.State != "" && q.State != names[r.state] {
			continue
		}
		if out.Matches >= q.Offset && len(out.Rows) < q.Limit {
			out.Rows = append(out.Rows, r.view(names))
		}
		out.Matches++
	}
	for i, name := range names {
		if states[i] > 0 {
			out.States[name] = states[i]
		}
	}
	return out
}

// maxLangs bounds the languages of a row.
const maxLangs = 8

// view is a row as the API shows it.
func (r *row) view(names []string) wire.NodeRow {
	n, langs := r.node, r.kind.langs
	v := wire.NodeRow{
		NodeID: string(n.ID), State: names[r.state], Slots: int(r.slots), Used: int(r.used), Region: n.Region, Zone: n.Zone,
		TenantID: string(n.Tenant), PoolID: string(r.pool), Langs: make([]string, min(maxLangs, len(langs))),
		MoreLangs: max(0, len(langs)-maxLangs),
		Services:  len(n.Services), LastHeartbeatMS: r.heartbeatMS, Incarnation: string(n.Owner),
	}
	for i := range v.Langs {
		v.Langs[i] = string(langs[i])
	}
	if r.load >= 0 {
		load := math.Round(float64(r.load)*1000) / 1000 // it is kept with less than four digits
		v.Load = &load
	}
	if r.counted {
		done, failed := int(r.done), int(r.failed)
		v.Done5m, v.Failed5m = &done, &failed
	}
	return v
}
