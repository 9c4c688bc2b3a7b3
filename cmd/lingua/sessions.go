package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/wire"
)

type sessionsCmd struct {
	List sessionsListCmd `cmd:"" help:"List the sessions of all instances."`
	End  sessionsEndCmd  `cmd:"" help:"End a session: its tokens are revoked, its jobs cancelled and its connection closed."`
}

type sessionsListCmd struct {
	apiClient
	Tenant    string `help:"Only sessions of this tenant." placeholder:"NAME"`
	Search    string `help:"Only sessions whose name contains this." placeholder:"TEXT"`
	Language  string `help:"Only sessions with this language." placeholder:"LANG"`
	Connected string `help:"Only sessions with a connected client (true), or without (false)." placeholder:"BOOL"`
	Instance  string `help:"Only sessions of this instance, by its incarnation." placeholder:"ID"`
	Limit     int    `help:"Maximum number of sessions." default:"100"`
	All       bool   `help:"List all sessions, without a limit."`
}

// Validate checks the flags before a request is sent.
func (c *sessionsListCmd) Validate() error { return checkLimit(c.Limit) }

// Run lists sessions.
func (c *sessionsListCmd) Run(ctx context.Context, io streams) error {
	list := wire.SessionList{Sessions: []wire.SessionInfo{}}
	q := makeQuery("tenant_id", c.Tenant, "search", c.Search, "language", c.Language, "connected", c.Connected, "instance", c.Instance)
	err := fetchPages(ctx, &c.apiClient, "/v1/sessions", q, maxEntries(c.Limit, c.All), func(page *wire.SessionList) (int, string) {
		list.Sessions, list.NextCursor = append(list.Sessions, page.Sessions...), page.NextCursor
		return len(page.Sessions), page.NextCursor
	})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		if len(list.Sessions) == 0 {
			fmt.Fprintln(t, "no sessions")
			return
		}
		fmt.Fprintln(t, "SESSION\tTENANT\tLANGUAGES\tCONNECTED\tSPEAKING\tUTTERANCES\tPENDING\tLAG MS\tP95 "+
			"MS\tRECONNECTS\tSTARTED\tKEY\tREMOTE\tINSTANCE")
		for i := range list.Sessions {
			s := &list.Sessions[i]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", printable(s.SessionID),
				cmp.Or(printable(s.TenantID), "–"), strings.Join(s.Langs, "↔"),
				yesNo(s.Connected), yesNo(s.Speaking), s.Utterances, s.Pending, formatOptional(s.LastResultLagMS),
				formatOptional(s.LagP95MS), s.Reconnects,
				formatAge(s.StartedMS), cmp.Or(printable(s.Key), "–"), cmp.Or(printable(s.Remote), "–"), printable(s.Instance))
		}
		writeMoreHint(t, list.NextCursor)
	})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// formatOptional formats a number that may be absent.
func formatOptional(n *int64) string {
	if n == nil {
		return "–"
	}
	return strconv.FormatInt(*n, 10)
}

type sessionsEndCmd struct {
	apiClient
	ID     string `arg:"" help:"The session."`
	Tenant string `help:"The tenant of the session, if the key has none." placeholder:"NAME"`
}

// Run ends a session.
func (c *sessionsEndCmd) Run(ctx context.Context, io streams) error {
	path := "/v1/sessions/" + url.PathEscape(c.ID)
	if q := makeQuery("tenant_id", c.Tenant); len(q) > 0 {
		path += "?" + q.Encode()
	}
	return show(ctx, &c.apiClient, io, "DELETE", path, nil, func(t *tabwriter.Writer, out *wire.SessionTerminated) {
		what := "no such session is running"
		if out.Ended {
			what = "the session is ended"
		}
		name := out.SessionID
		if out.TenantID != "" {
			name = out.TenantID + "/" + name
		}
		fmt.Fprintf(t, "%s: %s, and its tokens are revoked\n", printable(name), what)
	})
}
