package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/wire"
)

type drainCmd struct {
	apiClient
	ID     string `arg:"" help:"The node."`
	DryRun bool   `help:"Change nothing: say what would be missing without the node."`
}

// Run drains a node.
func (c *drainCmd) Run(ctx context.Context, io streams) error {
	if c.DryRun {
		return c.try(ctx, io)
	}
	c.warnOfEffect(ctx, io, c.ID)
	return c.changeNode(ctx, io, c.ID, "drain", "gets no new jobs")
}

// warnOfEffect says which directions have no ready node, or only one, without a node. Nothing is said if that cannot be read.
func (c *apiClient) warnOfEffect(ctx context.Context, io streams, id string) {
	var e wire.DrainEffect
	if c.request(ctx, "GET", "/v1/nodes/"+url.PathEscape(id)+"/drain_effect", nil, &e) != nil {
		return
	}
	for _, left := range []struct {
		what       string
		directions []wire.DirectionName
	}{{"no ready node", e.None}, {"one ready node", e.One}} {
		if len(left.directions) > 0 {
			more := ""
			if e.Truncated {
				more = ", and more"
			}
			fmt.Fprintf(io.err, "lingua: without %s, %s is left for %s%s\n", printable(id), left.what, listDirections(left.directions),
				more)
		}
	}
}

// try prints what would be missing if the node were drained.
func (c *drainCmd) try(ctx context.Context, io streams) error {
	path := "/v1/nodes/" + url.PathEscape(c.ID) + "/drain_effect"
	return show(ctx, &c.apiClient, io, "GET", path, nil, func(t *tabwriter.Writer, e *wire.DrainEffect) {
		fmt.Fprintf(t, "without %s: %.1f %% of the slots of ready nodes are missing; its jobs in flight stay with it: %d\n", c.ID,
			100*e.ShareOfSlots, e.InFlight)
		fmt.Fprintf(t, "directions without a ready node: %s\n", listDirections(e.None))
		fmt.Fprintf(t, "directions with one: %s\n", listDirections(e.One))
		if e.Truncated {
			fmt.Fprintln(t, "there are more directions than these")
		}
	})
}

// listDirections lists directions, such as "de→en, fr→en".
func listDirections(all []wire.DirectionName) string {
	if len(all) == 0 {
		return "none"
	}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = describeCover(d.SrcLang, d.TgtLang, d.PoolID, d.TenantID)
	}
	return strings.Join(names, ", ")
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
	return show(ctx, c, io, "POST", "/v1/nodes/"+url.PathEscape(id)+"/"+action, nil, func(t *tabwriter.Writer, n *wire.Node) {
		fmt.Fprintf(t, "%s %s (%s, %d of %d slots in use)\n", n.NodeID, effect, n.Health, n.EffectiveLoad, n.MaxConcurrentJobs)
	})
}
