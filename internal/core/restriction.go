package core

import (
	"slices"
	"strconv"
	"strings"
)

// Restriction is what a job requires of its node besides the direction, as far as nodes are indexed by it.
type Restriction struct {
	Region   string
	Services []string // an id, or an id and the acceptable versions, as in Options
	Models   []string
}

// RestrictionOf returns the restriction of the options of a job.
func RestrictionOf(o *Options) Restriction {
	return Restriction{Region: o.Region, Services: o.RequiredServices, Models: o.RequiredModels}
}

// Empty reports whether every node fulfils the restriction.
func (r *Restriction) Empty() bool {
	return r.Region == "" && len(r.Services) == 0 && len(r.Models) == 0
}

// Names returns how many services and models are required.
func (r *Restriction) Names() int { return len(r.Services) + len(r.Models) }

// Key returns a text that is equal for restrictions that the same nodes fulfil, and for no others. Callers choose the parts, so each has
// its length before it.
func (r *Restriction) Key() string {
	if r.Empty() {
		return ""
	}
	var b strings.Builder
	writePart(&b, r.Region)
	for _, list := range [][]string{r.Services, r.Models} {
		names := slices.Compact(slices.Sorted(slices.Values(list)))
		b.WriteString(strconv.Itoa(len(names)))
		b.WriteByte(';')
		for _, name := range names {
			writePart(&b, name)
		}
	}
	return b.String()
}

// writePart writes a part of a key.
func writePart(b *strings.Builder, part string) {
	b.WriteString(strconv.Itoa(len(part)))
	b.WriteByte(':')
	b.WriteString(part)
}

// Allows reports whether a node fulfils the restriction. Whether its services are ready is another question.
func (r *Restriction) Allows(n *Node) bool {
	if r.Region != "" && r.Region != n.Region {
		return false
	}
	for _, required := range r.Services {
		if installed, _ := n.ServiceState(required); !installed {
			return false
		}
	}
	for _, required := range r.Models {
		if !n.HasModel(required) {
			return false
		}
	}
	return true
}
