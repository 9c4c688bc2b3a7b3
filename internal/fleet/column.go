package fleet

import (
	"slices"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// maxFew is up to how many slots a column lists them. Nodes may declare any number of languages and services that no other node has.
const maxFew = 32

// column is the set of the nodes that declare one thing, such as a language. It is read without a lock while one writer changes it.
type column struct {
	few  atomic.Pointer[[]uint32] // sorted; nil: many has them
	many bitmap
}

func newColumn() *column {
	c := new(column)
	c.few.Store(new([]uint32))
	return c
}

// set adds or removes a slot. Only the writer calls it. It reports whether the column is empty.
func (c *column) set(slot uint32, on bool) (empty bool) {
	few := c.few.Load()
	if few == nil {
		c.many.set(slot, on)
		return !on && c.many.len() == 0
	}
	at, has := slices.BinarySearch(*few, slot)
	next := slices.Clone(*few)
	switch {
	case on && !has:
		next = slices.Insert(next, at, slot)
	case !on && has:
		next = slices.Delete(next, at, at+1)
	}
	if len(next) <= maxFew {
		c.few.Store(&next)
		return len(next) == 0
	}
	for _, slot := range next {
		c.many.set(slot, true)
	}
	c.few.Store(nil)
	return false
}

// or adds the slots of a chunk to w. A nil column has none.
func (c *column) or(w *words, chunk int) {
	if c == nil {
		return
	}
	few := c.few.Load()
	if few == nil {
		c.many.or(w, chunk)
		return
	}
	from, _ := slices.BinarySearch(*few, uint32(chunk*chunkSlots))
	for _, slot := range (*few)[from:] {
		if slot >= uint32(chunk+1)*chunkSlots {
			return
		}
		w[slot%chunkSlots/wordBits] |= 1 << (slot % wordBits)
	}
}

// columnKey names what the nodes of a column declare.
type columnKey struct {
	kind columnKind
	a, b string // a language, two for a pair, or a name and a version
}

type columnKind uint8

const (
	columnSemantic   columnKind = iota // understands the language a
	columnASR                          // recognises the language a
	columnTTS                          // speaks the language a
	columnPair                         // declares that it translates a to b
	columnAnyPair                      // declares no pairs
	columnAnyASR                       // declares no languages of its ASR
	columnRegion                       // is in the region a
	columnService                      // has the service a with the version b installed
	columnModel                        // has the model a with the version b
	columnNoSemantic                   // declares that it has no semantic stage; the next are alike
	columnNoASR
	columnNoNMT
	columnNoTTS
)

// columns are the sets of the nodes that declare each thing. The index of a direction is computed from them, and the nodes are not read.
type columns struct {
	byKey    map[columnKey]*column
	versions map[columnKey]map[string]bool // of a service or model that nodes have, by the key without a version
}

func newColumns() columns {
	return columns{make(map[columnKey]*column), make(map[columnKey]map[string]bool)}
}

// declare adds or removes everything that a node declares.
func (cs *columns) declare(slot uint32, n *core.Node, on bool) {
	c := &n.Capability
	for _, l := range c.Semantic {
		cs.set(columnKey{columnSemantic, string(l), ""}, slot, on)
	}
	for _, l := range c.ASR {
		cs.set(columnKey{columnASR, string(l), ""}, slot, on)
	}
	for _, l := range c.TTS {
		cs.set(columnKey{columnTTS, string(l), ""}, slot, on)
	}
	if c.AnyPair {
		cs.set(columnKey{kind: columnAnyPair}, slot, on)
	} else {
		for _, d := range c.Pairs {
			cs.set(columnKey{columnPair, string(d.Src), string(d.Tgt)}, slot, on)
		}
	}
	for kind, holds := range map[columnKind]bool{
		columnAnyASR: len(c.ASR) == 0, columnNoSemantic: c.Types.Semantic == core.No, columnNoASR: c.Types.ASR == core.No,
		columnNoNMT: c.Types.NMT == core.No, columnNoTTS: c.Types.TTS == core.No,
	} {
		if holds {
			cs.set(columnKey{kind: kind}, slot, on)
		}
	}
	if n.Region != "" {
		cs.set(columnKey{columnRegion, n.Region, ""}, slot, on)
	}
	for i := range c.Services {
		cs.setVersion(columnService, c.Services[i].ID, c.Services[i].Version, slot, on)
	}
	for _, model := range c.Models {
		id, version := core.CutRequired(model)
		cs.setVersion(columnModel, id, version, slot, on)
	}
}

// setVersion adds or removes a node with a version of a service or model.
func (cs *columns) setVersion(kind columnKind, id, version string, slot uint32, on bool) {
	cs.set(columnKey{kind, id, version}, slot, on)
	all := cs.versions[columnKey{kind, id, ""}]
	if cs.byKey[columnKey{kind, id, version}] == nil {
		if delete(all, version); len(all) == 0 {
			delete(cs.versions, columnKey{kind, id, ""})
		}
		return
	}
	if all == nil {
		all = make(map[string]bool)
		cs.versions[columnKey{kind, id, ""}] = all
	}
	all[version] = true
}

// set adds or removes a slot of a column, which is made and removed as needed.
func (cs *columns) set(key columnKey, slot uint32, on bool) {
	c := cs.byKey[key]
	if c == nil {
		if !on {
			return
		}
		c = newColumn()
		cs.byKey[key] = c
	}
	if c.set(slot, on) {
		delete(cs.byKey, key)
	}
}

// satisfying returns the columns of the versions of a service or model that are acceptable.
func (cs *columns) satisfying(kind columnKind, required string) (all []*column) {
	id, conditions := core.CutRequired(required)
	for version := range cs.versions[columnKey{kind, id, ""}] {
		if core.Satisfies(version, conditions) {
			all = append(all, cs.byKey[columnKey{kind, id, version}])
		}
	}
	return all
}

// query computes which nodes satisfy a requirement. It has the columns that matter, so that the map is not read while it is changed.
type query struct {
	semantic, asr   []*column // of the tags of the source language
	pairs           []pairQuery
	targets         []*column // speech in the target language; empty: it is not required
	anyPair, anyASR *column
	excluded        []*column
	restrictions    [][]*column // the node is in one column of each
}

// pairQuery has what translates one tag of the source to one tag of the target.
type pairQuery struct {
	pair    *column   // declares the pair
	source  *column   // or declares no pairs, understands the source
	targets []*column // and understands or speaks the target
}

// query returns the query of a requirement and a restriction.
func (cs *columns) query(r *core.Requirement, restriction *core.Restriction) *query {
	of := func(kind columnKind, a, b core.Lang) *column { return cs.byKey[columnKey{kind, string(a), string(b)}] }
	q := &query{anyPair: of(columnAnyPair, "", ""), anyASR: of(columnAnyASR, "", "")}
	for _, src := range r.SourceTags() {
		q.semantic = append(q.semantic, of(columnSemantic, src, ""))
		q.asr = append(q.asr, of(columnASR, src, ""))
		for _, tgt := range r.TargetTags() {
			if src != tgt { // two regions of one language are not a pair
				q.pairs = append(q.pairs, pairQuery{
					pair: of(columnPair, src, tgt), source: of(columnSemantic, src, ""),
					targets: []*column{of(columnSemantic, tgt, ""), of(columnTTS, tgt, "")},
				})
			}
		}
	}
	q.excluded = []*column{of(columnNoSemantic, "", ""), of(columnNoASR, "", ""), of(columnNoNMT, "", "")}
	if r.TTS {
		q.excluded = append(q.excluded, of(columnNoTTS, "", ""))
		for _, tgt := range r.TargetTags() {
			q.targets = append(q.targets, of(columnTTS, tgt, ""))
		}
	}
	if restriction.Region != "" {
		q.restrictions = append(q.restrictions, []*column{cs.byKey[columnKey{columnRegion, restriction.Region, ""}]})
	}
	for _, required := range restriction.Services {
		q.restrictions = append(q.restrictions, cs.satisfying(columnService, required))
	}
	for _, required := range restriction.Models {
		q.restrictions = append(q.restrictions, cs.satisfying(columnModel, required))
	}
	return q
}

// isEmpty reports whether no node can satisfy the requirement and the restriction, because none declares what it needs.
func (q *query) isEmpty() bool {
	for _, acceptable := range q.restrictions {
		if !exists(acceptable) {
			return true
		}
	}
	return !exists(q.semantic) || !slices.ContainsFunc(q.pairs, func(p pairQuery) bool {
		return p.pair != nil || p.source != nil && q.anyPair != nil && exists(p.targets)
	})
}

// exists reports whether there is one of the columns.
func exists(all []*column) bool {
	return slices.ContainsFunc(all, func(c *column) bool { return c != nil })
}

// evaluate returns the nodes of a chunk that satisfy the requirement, by the rules of core.Requirement.Mismatch, and the restriction.
func (q *query) evaluate(chunk int) (result words) {
	result = union(chunk, q.semantic...)
	result.and(union(chunk, append(q.asr, q.anyASR)...))
	result.and(q.translating(chunk))
	if len(q.targets) > 0 {
		result.and(union(chunk, q.targets...))
	}
	for _, acceptable := range q.restrictions {
		result.and(union(chunk, acceptable...))
	}
	excluded := union(chunk, q.excluded...)
	for k := range result {
		result[k] &^= excluded[k]
	}
	return result
}

// translating returns the nodes of a chunk that translate the direction.
func (q *query) translating(chunk int) (result words) {
	anyPair := union(chunk, q.anyPair)
	for i := range q.pairs {
		p := &q.pairs[i]
		free := union(chunk, p.source)
		free.and(union(chunk, p.targets...))
		free.and(anyPair)
		p.pair.or(&free, chunk)
		for k := range result {
			result[k] |= free[k]
		}
	}
	return result
}

// union returns the slots of a chunk that any of the columns has.
func union(chunk int, all ...*column) (w words) {
	for _, c := range all {
		c.or(&w, chunk)
	}
	return w
}

func (w *words) and(other words) {
	for k := range w {
		w[k] &= other[k]
	}
}
