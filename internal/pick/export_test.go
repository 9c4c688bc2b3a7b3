package pick

import (
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// RouteOf returns the route of an index of a fleet that is not divided, for a tenant.
func (p *Picker) RouteOf(x *fleet.Index, tenant core.TenantID) *fleet.Route {
	return p.fleet.Route(x.Requirement.Direction, x.Requirement.TTS).For(tenant)
}

// Survey surveys the eligible pools of the route of a selection.
func (s *Selection) Survey() Survey { return s.picker.Survey(s.query, s.order.route, Eligible) }
