package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type waitingCmd struct {
	apiClient
	Tenant string  `help:"Only requests of this tenant." placeholder:"ID"`
	Pool   *string `help:"Only requests that wait in the queue of this capability pool; empty: those that are bound to none." placeholder:"ID"`
	Limit  int     `help:"Maximum number of requests, of tenants and of classes." default:"20"`
}

// Validate checks the flags before a request is sent.
func (c *waitingCmd) Validate() error {
	if c.Limit < 1 || c.Limit > maxWaitingLimit {
		return fmt.Errorf("--limit: must be between 1 and %d", maxWaitingLimit)
	}
	return nil
}

// maxWaitingLimit is the highest limit of GET /v1/waiting.
const maxWaitingLimit = 1000

// Run lists the requests that wait for a slot.
func (c *waitingCmd) Run(ctx context.Context, io streams) error {
	q := makeQuery("tenant_id", c.Tenant, "limit", strconv.Itoa(c.Limit))
	if c.Pool != nil {
		q.Set("pool", *c.Pool)
	}
	return show(ctx, &c.apiClient, io, "GET", "/v1/waiting?"+q.Encode(), nil, writeWaiting)
}

func writeWaiting(t *tabwriter.Writer, list *wire.WaitingList) {
	if list.Total == 0 {
		fmt.Fprintln(t, "nobody waits for a slot")
		return
	}
	fmt.Fprintf(t, "waiting: %d\n\n", list.Total)
	_ = t.Flush() // the columns below are others; an error of the terminal is returned by the last flush
	fmt.Fprintln(t, "TENANT\tPOOL\tWAITING\tOLDEST\tWEIGHT\tGRANTED\tENTITLED")
	for i := range list.Tenants {
		n := &list.Tenants[i]
		granted, entitled := "–", "–"
		if n.Share != nil {
			granted, entitled = strconv.Itoa(n.Share.Granted), strconv.FormatFloat(n.Share.Entitled, 'f', 1, 64)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%g\t%s\t%s\n", tenantName(n.TenantID), poolName(n.PoolID), n.Waiting,
			formatWait(list.NowMS-n.OldestMS), n.Weight, granted, entitled)
	}
	fmt.Fprintln(t)
	_ = t.Flush()
	fmt.Fprintln(t, "TENANT\tPOOL\tFOR\tWAITED\tPLACE\tESTIMATE\tGIVES UP IN\tINSTANCE\tJOB")
	for i := range list.Requests {
		n := &list.Requests[i]
		estimate := "–"
		if n.EstimateMS != nil {
			estimate = formatWait(*n.EstimateMS)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", tenantName(n.TenantID), poolName(n.PoolID),
			formatRequirements(&n.WaitingRequirements),
			formatWait(list.NowMS-n.SinceMS), n.Place, estimate, formatWait(n.DeadlineMS-list.NowMS), n.Instance, n.JobID)
	}
	if list.Truncated {
		fmt.Fprintln(t, "(there are more: --limit)")
	}
}

// tenantName is the name of a tenant in a table.
func tenantName(id string) string { return cmp.Or(printable(id), "(none)") }

// formatRequirements formats the direction of requests and what else they require.
func formatRequirements(r *wire.WaitingRequirements) string {
	if r.SrcLang == "" {
		return "class " + r.ClassID
	}
	return printable(strings.Join(append([]string{r.SrcLang + "→" + r.TgtLang}, r.Requires...), " "))
}

// formatWait formats the duration of a wait, such as 1.2s.
func formatWait(ms int64) string {
	return max(time.Duration(ms)*time.Millisecond, 0).Round(100 * time.Millisecond).String()
}
