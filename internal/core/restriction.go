package core

import (
	"slices"
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

// Key returns a text that is equal for restrictions that the same nodes fulfil.
func (r *Restriction) Key() string {
	if r.Empty() {
		return ""
	}
	var b strings.Builder
	b.WriteString(r.Region)
	for _, list := range [][]string{r.Services, r.Models} {
		b.WriteByte(0)
		for _, name := range slices.Sorted(slices.Values(list)) {
			b.WriteString(name)
			b.WriteByte(1)
		}
	}
	return b.String()
}

// Allows reports whether a node fulfils the restriction. Whether its services are ready is another question.
func (r *Restriction) Allows(n *Node) bool {
	if r.Region != "" && r.Region != n.Region {
		return false
	}
	for _, required := range r.Services {
		if installed, _ := n.Capability.ServiceState(required); !installed {
			return false
		}
	}
	for _, required := range r.Models {
		if !n.Capability.HasModel(required) {
			return false
		}
	}
	return true
}
