package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/wire"
)

type directionsCmd struct {
	apiClient
	Language string `help:"Only directions from or to this language." placeholder:"LANG"`
	Region   string `help:"Count only nodes in this region." placeholder:"NAME"`
	Node     string `help:"Count only this node." placeholder:"ID"`
	Limit    int    `help:"Maximum number of directions." default:"1000"`
	All      bool   `help:"List all directions, without a limit."`
}

// Validate checks the flags before a request is sent.
func (c *directionsCmd) Validate() error { return checkLimit(c.Limit) }

// Run lists directions.
func (c *directionsCmd) Run(ctx context.Context, io streams) error {
	list := wire.DirectionList{Directions: []wire.Direction{}}
	q := makeQuery("language", c.Language, "region", c.Region, "node_id", c.Node)
	err := fetchPages(ctx, &c.apiClient, "/v1/directions", q, maxEntries(c.Limit, c.All), func(page *wire.DirectionList) (int, string) {
		list.Directions, list.Truncated, list.NextCursor = append(list.Directions, page.Directions...), page.Truncated, page.NextCursor
		return len(page.Directions), page.NextCursor
	})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		if len(list.Directions) == 0 {
			fmt.Fprintln(t, "no registered node serves a matching direction")
			return
		}
		fmt.Fprintln(t, "DIRECTION\tNODES\tREADY\tSLOTS\tIN FLIGHT\tFREE\tJOBS 5 MIN\tREFUSED\tWAITING\tWAIT P95 MS\tUNCOVERED")
		for _, d := range list.Directions {
			fmt.Fprintf(t, "%s→%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", printable(d.SrcLang), printable(d.TgtLang), d.Nodes, d.Ready,
				d.Capacity, d.InFlight, d.Free,
				formatOptional(d.Jobs5m), formatOptional(d.Refused5m), formatOptional(d.Waiting), formatOptional(d.WaitP95MS),
				describeUncovered(d.Uncovered))
		}
		writeMoreHint(t, list.NextCursor)
	})
}

// describeUncovered lists the pools and tenants that have no ready node for a direction.
func describeUncovered(groups []wire.CoverGroup) string {
	var names []string
	for _, g := range groups {
		names = append(names, describeCoverGroup(g.PoolID, g.TenantID))
	}
	return strings.Join(names, ", ")
}
