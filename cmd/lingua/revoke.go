package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type revokeCmd struct {
	Key     revokeKeyCmd     `cmd:"" help:"Revoke a key and every token that it has minted."`
	KID     revokeKIDCmd     `cmd:"" name:"kid" help:"Revoke every token that was signed with a signer."`
	Tenant  revokeTenantCmd  `cmd:"" help:"Revoke a tenant: its keys, tokens, sessions and nodes."`
	Session revokeSessionCmd `cmd:"" help:"Revoke the tokens of a session, and end it."`
	Node    revokeNodeCmd    `cmd:"" help:"Remove a node, whose name cannot register until the revocation is lifted."`
	List    revokeListCmd    `cmd:"" help:"List what is revoked."`
	Lift    revokeLiftCmd    `cmd:"" help:"Lift a revocation."`
	Export  revokeExportCmd  `cmd:"" help:"Print what is revoked, for an import after a loss of Redis."`
	Import  revokeImportCmd  `cmd:"" help:"Revoke what an export names."`
}

// revocation has the flags of all commands that revoke something.
type revocation struct {
	apiClient
	Reason string `help:"A text that is listed with the revocation." placeholder:"TEXT"`
}

// datedRevocation is a revocation of what was issued before a time.
type datedRevocation struct {
	revocation
	Before string `help:"Only what was issued or began before this time, such as 2026-01-31T12:00:00Z; default now." placeholder:"TIME"`
}

// Validate checks the flags before a request is sent.
func (c *datedRevocation) Validate() error {
	if _, err := time.Parse(time.RFC3339, c.Before); c.Before != "" && err != nil {
		return fmt.Errorf("--before: %q is not a time such as 2026-01-31T12:00:00Z", c.Before)
	}
	return nil
}

// send requests a revocation and prints its effect.
func (c *revocation) send(ctx context.Context, io streams, in wire.RevocationRequest, effect string) error {
	in.Reason = c.Reason
	var out wire.Revocation
	if err := c.request(ctx, "POST", "/v1/auth/revocations", in, &out); err != nil {
		return err
	}
	for _, warning := range out.Warnings {
		fmt.Fprintln(io.err, "lingua:", printable(warning))
	}
	return c.print(io.out, out, func(t *tabwriter.Writer) { fmt.Fprintf(t, "%s is revoked: %s\n", printable(out.ID), effect) })
}

type revokeKeyCmd struct {
	datedRevocation
	Name string `arg:"" help:"The name of the key."`
}

// Run revokes a key.
func (c *revokeKeyCmd) Run(ctx context.Context, io streams) error {
	return c.send(ctx, io, wire.RevocationRequest{Key: c.Name, Before: c.Before},
		"requests with the key and its tokens are refused, its connections are closed, its sessions end, and its nodes are removed")
}

type revokeKIDCmd struct {
	datedRevocation
	KID string `arg:"" name:"kid" help:"The kid of the signer."`
}

// Run revokes the tokens of a signer.
func (c *revokeKIDCmd) Run(ctx context.Context, io streams) error {
	return c.send(ctx, io, wire.RevocationRequest{KID: c.KID, Before: c.Before},
		"its tokens are refused and their sessions end; if its secret is known to others, remove the signer from the configuration too")
}

type revokeTenantCmd struct {
	datedRevocation
	Name string `arg:"" help:"The tenant."`
}

// Run revokes a tenant.
func (c *revokeTenantCmd) Run(ctx context.Context, io streams) error {
	return c.send(ctx, io, wire.RevocationRequest{Tenant: c.Name, Before: c.Before},
		"its keys and tokens are refused, its connections are closed, its sessions end, and its nodes are removed")
}

type revokeSessionCmd struct {
	datedRevocation
	ID     string `arg:"" help:"The session."`
	Tenant string `help:"The tenant of the session." placeholder:"NAME"`
}

// Run revokes a session.
func (c *revokeSessionCmd) Run(ctx context.Context, io streams) error {
	return c.send(ctx, io, wire.RevocationRequest{Session: c.ID, TenantID: c.Tenant, Before: c.Before},
		"its tokens are refused, and it ends")
}

type revokeNodeCmd struct {
	revocation
	ID string `arg:"" help:"The node."`
}

// Run revokes the name of a node.
func (c *revokeNodeCmd) Run(ctx context.Context, io streams) error {
	return c.send(ctx, io, wire.RevocationRequest{Node: c.ID}, "it is removed, its jobs move, and no node of this name can register")
}

type revokeListCmd struct {
	apiClient
	Limit int  `help:"Maximum number of revocations." default:"100"`
	All   bool `help:"List all revocations, without a limit."`
}

// Validate checks the flags before a request is sent.
func (c *revokeListCmd) Validate() error { return checkLimit(c.Limit) }

// Run lists revocations.
func (c *revokeListCmd) Run(ctx context.Context, io streams) error {
	list := wire.RevocationList{Revocations: []wire.Revocation{}}
	err := fetchPages(ctx, &c.apiClient, "/v1/auth/revocations", url.Values{}, maxEntries(c.Limit, c.All),
		func(page *wire.RevocationList) (int, string) {
			list.Revocations, list.NextCursor = append(list.Revocations, page.Revocations...), page.NextCursor
			return len(page.Revocations), page.NextCursor
		})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		if len(list.Revocations) == 0 {
			fmt.Fprintln(t, "nothing is revoked")
			return
		}
		fmt.Fprintln(t, "ID\tISSUED BEFORE\tADDED\tBY\tDROPPED\tREASON")
		for i := range list.Revocations {
			r := &list.Revocations[i]
			reason := r.Reason
			if r.Ended {
				reason = cmp.Or(reason, "the session was ended")
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(r.ID), formatDate(r.BeforeMS), formatAge(r.AtMS),
				cmp.Or(printable(r.By), "–"),
				cmp.Or(formatDate(r.UntilMS), "when lifted"), cmp.Or(printable(reason), "–"))
		}
		writeMoreHint(t, list.NextCursor)
	})
}

type revokeLiftCmd struct {
	apiClient
	ID string `arg:"" help:"The id of the revocation, as printed by lingua revoke list."`
}

// Run lifts a revocation.
func (c *revokeLiftCmd) Run(ctx context.Context, io streams) error {
	path := "/v1/auth/revocations/" + url.PathEscape(c.ID)
	return show(ctx, &c.apiClient, io, "DELETE", path, nil, func(t *tabwriter.Writer, out *wire.Revocation) {
		fmt.Fprintf(t, "%s is not revoked any more\n", printable(out.ID))
	})
}
