package server

import (
	"github.com/lingua-scheduler/lingua/wire"
)

// callerContext is what a page shows to every caller.
func (o *Options) callerContext() wire.CallerContext {
	c := wire.CallerContext{
		Version: o.Version.Version, Instance: string(o.Bus.Instance()), Links: []wire.Link{},
		MultiTenant: o.Auth.Keyring().HasTenants() || o.NodesHaveTenants(),
	}
	for _, l := range o.Reload.InForce().Config.Dashboard.Links {
		c.Links = append(c.Links, wire.Link{Name: l.Name, URL: l.URL})
	}
	return c
}
