package main

import (
	"context"
	"fmt"
	"net/url"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/wire"
)

type drainCmd struct {
	apiClient
	ID string `arg:"" help:"The node."`
}

// Run drains a node.
func (c *drainCmd) Run(ctx context.Context, io streams) error {
	return c.changeNode(ctx, io, c.ID, "drain", "gets no new jobs")
}

type resumeCmd struct {
	apiClient
	ID string `arg:"" help:"The node."`
}

// Run ends the drain of a node.
func (c *resumeCmd) Run(ctx context.Context, io streams) error {
	return c.changeNode(ctx, io, c.ID, "resume", "gets new jobs again")
}

// changeNode requests an action on a node and prints its effect and the state of the node after it.
func (c *apiClient) changeNode(ctx context.Context, io streams, id, action, effect string) error {
	var n wire.Node
	if err := c.request(ctx, "POST", "/v1/nodes/"+url.PathEscape(id)+"/"+action, nil, &n); err != nil {
		return err
	}
	return c.print(io.out, n, func(t *tabwriter.Writer) {
		fmt.Fprintf(t, "%s %s (%s, %d of %d slots in use)\n", n.NodeID, effect, n.Health, n.EffectiveLoad, n.MaxConcurrentJobs)
	})
}
