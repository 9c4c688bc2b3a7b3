package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

type nodesCmd struct {
	List   listNodesCmd  `cmd:"" default:"withargs" help:"List the registered nodes, or show one."`
	Probe  probeNodeCmd  `cmd:"" help:"Send a synthetic utterance through a node, also while it is drained, and say how it went."`
	Remove removeNodeCmd `cmd:"" help:"Remove a node at once: its jobs are given to others."`
}

type listNodesCmd struct {
	apiClient
	ID       string `arg:"" optional:"" help:"Show only this node."`
	State    string `help:"Only nodes in this state: ready, degraded, draining, offline or silent." placeholder:"STATE"`
	Language string `help:"Only nodes that have this language." placeholder:"LANG"`
	Region   string `help:"Only nodes in this region." placeholder:"NAME"`
	Limit    int    `help:"Maximum number of nodes." default:"1000"`
	All      bool   `help:"List all nodes, without a limit."`
	Refused  bool   `help:"List the nodes that were refused instead, by address and reason, with what to change."`
}

// Validate checks the flags before a request is sent.
func (c *listNodesCmd) Validate() error {
	if c.Refused && (c.ID != "" || c.State != "" || c.Language != "" || c.Region != "") {
		return errors.New("--refused lists nodes that are not registered: give it alone")
	}
	return checkLimit(c.Limit)
}

// Run lists nodes.
func (c *listNodesCmd) Run(ctx context.Context, io streams) error {
	if c.Refused {
		return c.listRefused(ctx, io)
	}
	if c.ID != "" {
		return show(ctx, &c.apiClient, io, "GET", "/v1/nodes/"+url.PathEscape(c.ID), nil, func(t *tabwriter.Writer, n *wire.Node) {
			writeNodes(t, []wire.Node{*n})
			switch {
			case n.PoolID != "":
				fmt.Fprintf(t, "\npool: %s\n", n.PoolID)
			case n.NoPool != nil:
				fmt.Fprintf(t, "\nno pool: %s\n", describeGap(n.NoPool))
			}
		})
	}
	list := wire.NodeList{Nodes: []wire.Node{}}
	q := makeQuery("state", strings.ToLower(c.State), "language", c.Language, "region", c.Region)
	filtered := len(q) > 0
	err := fetchPages(ctx, &c.apiClient, "/v1/nodes", q, maxEntries(c.Limit, c.All), func(page *wire.NodeList) (int, string) {
		list.Nodes, list.NextCursor = append(list.Nodes, page.Nodes...), page.NextCursor
		return len(page.Nodes), page.NextCursor
	})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		switch {
		case len(list.Nodes) == 0 && filtered:
			fmt.Fprintln(t, "no registered node matches")
			return
		case len(list.Nodes) == 0:
			fmt.Fprintln(t, "no nodes are registered")
			return
		}
		writeNodes(t, list.Nodes)
		writeMoreHint(t, list.NextCursor)
	})
}

// listRefused lists nodes that were refused.
func (c *listNodesCmd) listRefused(ctx context.Context, io streams) error {
	return show(ctx, &c.apiClient, io, "GET", "/v1/nodes/refused", nil, func(t *tabwriter.Writer, list *wire.RefusedNodeList) {
		if len(list.Refused) == 0 {
			fmt.Fprintln(t, "no node was refused since the instances started")
		} else {
			fmt.Fprintln(t, "ADDRESS\tNODE\tREASON\tTIMES\tLAST\tWHAT TO CHANGE")
		}
		for i := range list.Refused {
			r := &list.Refused[i]
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", r.Address, cmp.Or(r.NodeID, "–"), strings.TrimSpace(string(r.Reason)+" "+r.Field),
				r.Count, formatAge(r.LastMS), r.Advice)
		}
		if list.Partial {
			fmt.Fprintln(t, "some instances did not answer: what they have refused is missing")
		}
	})
}

type removeNodeCmd struct {
	apiClient
	ID string `arg:"" help:"The node. One that still runs registers again: stop it first, or drain it instead."`
}

// Run removes a node.
func (c *removeNodeCmd) Run(ctx context.Context, io streams) error {
	c.warnOfEffect(ctx, io, c.ID)
	path := "/v1/nodes/" + url.PathEscape(c.ID)
	return show(ctx, &c.apiClient, io, "DELETE", path, nil, func(t *tabwriter.Writer, removed *wire.NodeRemoved) {
		fmt.Fprintf(t, "%s is removed; %d jobs are given to other nodes\n", removed.NodeID, removed.MovedJobs)
		for _, w := range removed.Warnings {
			fmt.Fprintln(t, "warning:", w)
		}
	})
}

func writeNodes(t *tabwriter.Writer, nodes []wire.Node) {
	fmt.Fprintln(t, "NODE\tHEALTH\tRESERVED\tRUNNING\tFOREIGN\tMAX\tLANGUAGES\tINSTANCE\tLAST SEEN")
	for i := range nodes {
		n := &nodes[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", n.NodeID, nodeHealth(n), n.Reserved, n.Running, n.Foreign,
			n.MaxConcurrentJobs, strings.Join(n.SemanticLangs, " "), cmp.Or(n.Incarnation, "–"), formatAge(n.LastHeartbeatMS))
	}
}

// nodeHealth returns the health that a node reported, or why it gets no jobs whatever it reported.
func nodeHealth(n *wire.Node) string {
	switch {
	case n.Disconnected && n.Online && n.SilentSinceMS > 0:
		return "disconnected, silent " + secondsOf(time.Now().UnixMilli()-n.SilentSinceMS)
	case n.Disconnected && n.Online:
		return "disconnected"
	case !n.Online && n.Health != core.HealthOffline.String():
		return "silent"
	case n.Held:
		return n.Health + ", held"
	case n.Admission != nil && n.Admission.Slots < n.MaxConcurrentJobs:
		return n.Health + ", " + admissionOf(n)
	case n.SetAsideMS > 0:
		return n.Health + ", set aside " + secondsOf(n.SetAsideMS)
	}
	return n.Health
}

// admissionOf describes how the slots of a node are limited, with the time for which it is meant to stay ejected.
func admissionOf(n *wire.Node) string {
	if n.Admission.Slots > 0 {
		return fmt.Sprintf("limited to %d of %d", n.Admission.Slots, n.MaxConcurrentJobs)
	}
	if left := time.Until(time.UnixMilli(n.Admission.UntilMS)); n.Admission.UntilMS != 0 && left > 0 {
		return "ejected " + secondsOf(left.Milliseconds())
	}
	return "ejected"
}
