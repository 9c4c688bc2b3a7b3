package config

import (
	"fmt"
	"net/netip"
)

const (
	allowedTargets = "callback.allowed_targets"
	notAPrefix     = "%q is not a CIDR prefix such as 10.0.0.0/8 or ::1/128"
)

// Prefixes are the networks in which callback addresses may be.
func (c *Callback) Prefixes() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(c.AllowedTargets))
	for _, s := range c.AllowedTargets {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf(allowedTargets+": "+notAPrefix, s)
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}
