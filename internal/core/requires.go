package core

import (
	"fmt"
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// ExtraRequirements lists what a job requires of a node besides its direction, in order.
func (s *Spec) ExtraRequirements() []string {
	var parts []string
	o := &s.Options
	if o.RequireTTS {
		parts = append(parts, fmt.Sprintf("tts(%s)", s.Direction.Tgt))
	}
	for kind, names := range map[string][]string{"service": o.RequiredServices, "model": o.RequiredModels, "feature": o.Features} {
		for _, name := range names {
			parts = append(parts, fmt.Sprintf("%s(%s)", kind, wire.Quote(name)))
		}
	}
	if o.Region != "" {
		parts = append(parts, fmt.Sprintf("region(%s)", wire.Quote(o.Region)))
	}
	slices.Sort(parts)
	return parts
}
