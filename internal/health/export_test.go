package health

import "context"

// RefreshList refreshes the list at once, in place of Run.
func (c *Catalog) RefreshList(ctx context.Context) { c.refreshList(ctx) }

// RefreshService refreshes one service at once, in place of Run.
func (c *Catalog) RefreshService(ctx context.Context, id string) { c.refreshService(ctx, id) }
