package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/wire"
)

type tenantsCmd struct {
	apiClient
	ID    string `arg:"" optional:"" help:"Show only this tenant."`
	Limit int    `help:"Maximum number of tenants." default:"100"`
	All   bool   `help:"List all tenants, without a limit."`
}

// Validate checks the flags before a request is sent.
func (c *tenantsCmd) Validate() error { return checkLimit(c.Limit) }

// Run lists tenants.
func (c *tenantsCmd) Run(ctx context.Context, io streams) error {
	list := wire.TenantList{Tenants: []wire.TenantInfo{}}
	err := fetchPages(ctx, &c.apiClient, "/v1/tenants", makeQuery("tenant_id", c.ID), maxEntries(c.Limit, c.All),
		func(page *wire.TenantList) (int, string) {
			list.Tenants, list.NextCursor, list.Partial = append(list.Tenants, page.Tenants...), page.NextCursor, list.Partial ||
				page.Partial
			return len(page.Tenants), page.NextCursor
		})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) { writeTenants(t, &list) })
}

func writeTenants(t *tabwriter.Writer, list *wire.TenantList) {
	if len(list.Tenants) == 0 {
		fmt.Fprintln(t, "no tenant has limits, jobs or sessions")
		return
	}
	fmt.Fprintln(t, "TENANT\tWEIGHT\tIN FLIGHT\tSESSIONS\tDISPATCHES LEFT\tAUDIO LEFT\tREFUSED")
	for i := range list.Tenants {
		n := &list.Tenants[i]
		fmt.Fprintf(t, "%s\t%v\t%s\t%s\t%s\t%s\t%s\n", tenantName(n.TenantID), n.Weight, formatUse(n.InFlight), formatUse(n.Sessions),
			formatRate(n.Dispatches, "%.1f of %v/s"), formatRate(n.Audio, "%.0f s of %v s/min"), formatRefusals(n.Refusals))
	}
	if list.Partial {
		fmt.Fprintln(t, "an instance did not answer: counts without a limit, and refusals, are too low")
	}
	writeMoreHint(t, list.NextCursor)
}

// formatUse formats how much a tenant uses, with its limit if it has one.
func formatUse(u wire.TenantUse) string {
	if u.Max == 0 {
		return strconv.Itoa(u.Used)
	}
	return fmt.Sprintf("%d of %d", u.Used, u.Max)
}

// formatRate formats what is left of a rate.
func formatRate(r *wire.TenantRate, format string) string {
	if r == nil {
		return "–"
	}
	return fmt.Sprintf(format, r.Left, r.Limit)
}

// formatRefusals formats how often each limit has refused something.
func formatRefusals(refusals map[string]int64) string {
	var parts []string
	for _, limit := range slices.Sorted(maps.Keys(refusals)) {
		parts = append(parts, fmt.Sprintf("%s %d", printable(limit), refusals[limit]))
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}
