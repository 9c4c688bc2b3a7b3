package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/wire"
)

type poolsCmd struct {
	apiClient
	Language string `help:"Only directions from or to this language." placeholder:"LANG"`
	Region   string `help:"Count only nodes in this region." placeholder:"NAME"`
	Node     string `help:"Count only this node." placeholder:"ID"`
	Limit    int    `help:"Maximum number of directions." default:"1000"`
	All      bool   `help:"List all directions, without a limit."`
}

// Validate checks the flags before a request is sent.
func (c *poolsCmd) Validate() error { return checkLimit(c.Limit) }

// Run lists directions.
func (c *poolsCmd) Run(ctx context.Context, io streams) error {
	list := wire.PoolList{Pools: []wire.Pool{}}
	q := makeQuery("language", c.Language, "region", c.Region, "node_id", c.Node)
	err := fetchPages(ctx, &c.apiClient, "/v1/pools", q, maxEntries(c.Limit, c.All), func(page *wire.PoolList) (int, string) {
		list.Pools, list.Truncated, list.NextCursor = append(list.Pools, page.Pools...), page.Truncated, page.NextCursor
		return len(page.Pools), page.NextCursor
	})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		if len(list.Pools) == 0 {
			fmt.Fprintln(t, "no registered node serves a matching direction")
			return
		}
		fmt.Fprintln(t, "DIRECTION\tNODES\tREADY\tSLOTS\tIN FLIGHT")
		for _, p := range list.Pools {
			fmt.Fprintf(t, "%s→%s\t%d\t%d\t%d\t%d\n", p.SrcLang, p.TgtLang, p.Nodes, p.Ready, p.Capacity, p.InFlight)
		}
		writeMoreHint(t, list.NextCursor)
	})
}
