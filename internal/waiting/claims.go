package waiting

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// Claims says who waits, as far as this instance knows: its copy is at most maxOpenAge old. Nil: nobody waits.
type Claims struct {
	open  *openClasses
	pools []*classFilters
	now   fleet.Instant
}

// claims returns who waits, according to a recent copy; nil: nobody does.
func (c *openClasses) claims(ctx context.Context) *Claims {
	if !c.any.Load() {
		return nil
	}
	_ = c.renew(ctx) // after an error the copy is used as it is
	if !c.any.Load() {
		return nil
	}
	claims := &Claims{open: c, now: c.fleet.Now()}
	for _, pool := range c.openPools() {
		claims.pools = append(claims.pools, c.filters(pool))
	}
	return claims
}

// Want reports whether a request waits that a node could serve: its free slots are for those who wait.
func (c *Claims) Want(n *fleet.Node) bool {
	if c == nil {
		return false
	}
	for _, filters := range c.pools {
		if filters.wants(n, c.now) {
			return true
		}
	}
	return false
}

// Ahead reports whether others wait for the same as a job.
func (c *Claims) Ahead(spec *core.Spec) bool {
	class, pool := newWaitClass(c.open.fleet, spec, nil)
	return c.open.classes(pool)[class.id] != nil
}
