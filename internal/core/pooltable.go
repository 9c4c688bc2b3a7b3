package core

import (
	"strings"
	"sync/atomic"
)

// PoolTable is derived from the definitions of a division, so that the cost of an assignment is that of comparing one number for each pool.
// It does not change, apart from what it remembers.
type PoolTable struct {
	ids     []PoolID
	numbers map[PoolID]int // positions in ids and, if there are definitions, in these
	salts   []uint64       // of the weights of each pool
	needs   [][]int32      // the services that each pool requires, by their numbers in services
	byID    map[string][]poolService
	// services is the number of different services, with their versions, that pools require.
	services int
	// eligible has the pools that cover lists of required services, by the key of the list. A list that is not in it is computed; when it
	// has maxEligible of them it begins anew.
	eligible atomic.Pointer[map[string]map[PoolID]bool]
}

// maxEligible bounds how many lists of required services a division remembers the eligible pools of. Callers choose the lists.
const maxEligible = 256

// poolService is a service that pools require.
type poolService struct {
	number     int32
	conditions string
}

// Prepared returns the same division with its table, for the one that divides the fleet by it. It must not be changed after that.
func (p *Pools) Prepared() *Pools {
	if p == nil || p.Table != nil {
		return p
	}
	next := *p
	next.Table = newPoolTable(p)
	return &next
}

// lookup returns the table of the division.
func (p *Pools) lookup() *PoolTable {
	if p.Table != nil {
		return p.Table
	}
	return newPoolTable(p)
}

func newPoolTable(p *Pools) *PoolTable {
	t := &PoolTable{ids: p.IDs(), byID: make(map[string][]poolService)}
	t.numbers, t.salts, t.needs = make(map[PoolID]int, len(t.ids)), make([]uint64, len(t.ids)), make([][]int32, len(t.ids))
	t.eligible.Store(new(map[string]map[PoolID]bool))
	for i, id := range t.ids {
		if _, known := t.numbers[id]; !known {
			t.numbers[id] = i
		}
		t.salts[i] = mix(hashText(string(id))) + mix(p.Seed)
	}
	numbers := make(map[string]int32)
	for i := range p.Defined {
		for _, required := range p.Defined[i].RequiredServices {
			number, known := numbers[required]
			if !known {
				number = int32(len(numbers))
				numbers[required] = number
				id, conditions := CutRequired(required)
				t.byID[id] = append(t.byID[id], poolService{number, conditions})
			}
			t.needs[i] = append(t.needs[i], number)
		}
	}
	t.services = len(numbers)
	return t
}

// installed returns which of the services that pools require a node has.
func (t *PoolTable) installed(c *Capability, into []bool) []bool {
	if t.services > len(into) {
		into = make([]bool, t.services)
	}
	for i := range c.Services {
		s := &c.Services[i]
		for _, required := range t.byID[s.ID] {
			into[required.number] = into[required.number] || Satisfies(s.Version, required.conditions)
		}
	}
	return into
}

// missing returns which of the services of a pool is the first that is not installed, and how many are not.
func (t *PoolTable) missing(pool int, installed []bool) (first, count int) {
	for i, number := range t.needs[pool] {
		if !installed[number] {
			if count++; count == 1 {
				first = i
			}
		}
	}
	return first, count
}

// Definition returns the definition of a pool; false if it has none.
func (p *Pools) Definition(id PoolID) (*PoolDefinition, bool) {
	if len(p.Defined) == 0 {
		return nil, false
	}
	number, known := p.lookup().numbers[id]
	if !known {
		return nil, false
	}
	return &p.Defined[number], true
}

// Assign returns the pool of a node: the one of its credential, or of those whose services it has installed one by a hash, which stays the
// same while these pools do. A pool that is added takes only the nodes that it gets.
func (p *Pools) Assign(n *Node) Assignment {
	t := p.lookup()
	var few [64]bool
	installed := t.installed(&n.Capability, few[:])
	if n.Pool != "" {
		number, known := t.numbers[n.Pool]
		if !known {
			return Assignment{Closest: n.Pool}
		}
		if first, lacks := t.missing(number, installed); lacks > 0 {
			return Assignment{Missing: p.Defined[number].RequiredServices[first], Closest: n.Pool}
		}
		return Assignment{Pool: n.Pool}
	}
	hash := mix(hashText(string(n.ID)))
	best, weight := -1, uint64(0)
	closest, fewest, missing := -1, 0, 0
	for i := range t.ids {
		first, lacks := t.missing(i, installed)
		switch {
		case lacks == 0:
			if w := mix(hash ^ t.salts[i]); best < 0 || w > weight {
				best, weight = i, w
			}
		case best < 0 && (closest < 0 || lacks < fewest):
			closest, fewest, missing = i, lacks, first
		}
	}
	switch {
	case best >= 0:
		return Assignment{Pool: t.ids[best]}
	case closest >= 0:
		return Assignment{Missing: p.Defined[closest].RequiredServices[missing], Closest: t.ids[closest]}
	}
	return Assignment{}
}

// The weight of a pool for a node is made from a hash of each: the node belongs to the pool with the highest one. It must never change, or
// all nodes move.

// hashText is FNV-1a.
func hashText(text string) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for i := range len(text) {
		hash = (hash ^ uint64(text[i])) * 0x100000001b3
	}
	return hash
}

// mix spreads the bits of a number: hashes of ids that differ in the last character differ too little.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// coveredBy returns the pools whose services cover all that a job requires.
func (p *Pools) coveredBy(required []string) map[PoolID]bool {
	t := p.lookup()
	var b strings.Builder
	for _, name := range required {
		writePart(&b, name)
	}
	key := b.String()
	known := t.eligible.Load()
	if pools, found := (*known)[key]; found {
		return pools
	}
	pools := make(map[PoolID]bool)
	for i := range p.Defined {
		if d := &p.Defined[i]; d.coversAll(required) {
			pools[d.ID] = true
		}
	}
	next := make(map[string]map[PoolID]bool, len(*known)+1)
	if len(*known) < maxEligible {
		for other, its := range *known {
			next[other] = its
		}
	}
	next[key] = pools
	t.eligible.CompareAndSwap(known, &next) // if another one was remembered meanwhile, this one is computed again the next time
	return pools
}
