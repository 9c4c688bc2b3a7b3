package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/wire"
)

type cancelCmd struct {
	apiClient
	ID       string   `arg:"" optional:"" help:"Cancel this job, or the request that waits for a slot under this id."`
	State    selector `help:"Cancel open jobs in this state: dispatched, acked, retrying, or open for all of them." placeholder:"STATE"`
	Reason   selector `help:"Cancel open jobs of which an attempt ended for this reason." placeholder:"REASON"`
	Node     selector `help:"Cancel open jobs that this node has or had." placeholder:"ID"`
	Session  selector `help:"Cancel open jobs of this session." placeholder:"ID"`
	Language selector `help:"Cancel open jobs from or to this language." placeholder:"LANG"`
	Src      selector `help:"Cancel open jobs from this language." placeholder:"LANG"`
	Tgt      selector `help:"Cancel open jobs to this language." placeholder:"LANG"`
	Region   selector `help:"Cancel open jobs that require this region." placeholder:"NAME"`
	Tenant   selector `help:"Cancel open jobs of this tenant." placeholder:"ID"`
	All      bool     `help:"Cancel all open jobs."`
	DryRun   bool     `help:"Only count the jobs that match."`
	Yes      bool     `help:"Cancel the jobs that match, without showing their number first."`
}

// selector is the value of a flag that selects what is changed. It is not empty: the variable of a script that is not set would select
// more.
type selector string

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *selector) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("must not be empty: leave the flag out to select whatever it is")
	}
	*s = selector(text)
	return nil
}

// filter is the filter of the flags.
func (c *cancelCmd) filter() wire.JobFilter {
	return wire.JobFilter{
		State: stateFilter(string(c.State)), Reason: strings.ToUpper(string(c.Reason)), NodeID: string(c.Node),
		SessionID: string(c.Session),
		Language:  string(c.Language), SrcLang: string(c.Src), TgtLang: string(c.Tgt), Region: string(c.Region), TenantID: string(c.Tenant),
	}
}

// Validate checks the flags before a request is sent.
func (c *cancelCmd) Validate() error {
	filtered := c.filter() != (wire.JobFilter{})
	switch {
	case c.ID != "" && (filtered || c.All || c.DryRun):
		return errors.New("give a job, or filters, not both")
	case c.ID == "" && !filtered && !c.All:
		return errors.New("give a job, filters such as --session, or --all")
	case filtered && c.All:
		return errors.New("give filters, or --all, not both")
	}
	return nil
}

// Run cancels a job, or all that match.
func (c *cancelCmd) Run(ctx context.Context, io streams) error {
	if c.ID != "" {
		path := "/v1/jobs/" + url.PathEscape(c.ID) + "/cancel"
		return show(ctx, &c.apiClient, io, "POST", path, nil, func(t *tabwriter.Writer, out *wire.CancelResponse) {
			if out.Waited {
				fmt.Fprintf(t, "%s waited for a slot, and was cancelled\n", c.ID)
				return
			}
			if out.Cancelled {
				fmt.Fprintf(t, "%s was cancelled\n", c.ID)
				return
			}
			fmt.Fprintf(t, "%s had ended before: %s\n", c.ID, out.Job.State)
		})
	}
	filter := c.filter()
	var counted wire.JobsCancelResponse
	if err := c.request(ctx, "POST", "/v1/jobs/cancel", wire.JobsCancelRequest{Filter: &filter, DryRun: true}, &counted); err != nil {
		return err
	}
	if c.DryRun || !c.Yes {
		return c.print(io.out, counted, func(t *tabwriter.Writer) {
			fmt.Fprintf(t, "%d open jobs match; nothing was cancelled\n", counted.Matches)
			if !c.DryRun {
				fmt.Fprintln(t, "to cancel them, add --yes")
			}
		})
	}
	filter.Until = counted.UntilMS
	in := wire.JobsCancelRequest{Filter: &filter, Expect: &counted.Matches}
	return show(ctx, &c.apiClient, io, "POST", "/v1/jobs/cancel", in, func(t *tabwriter.Writer, out *wire.JobsCancelResponse) {
		fmt.Fprintf(t, "%d were cancelled, %d had ended before\n", out.Cancelled, out.AlreadyEnded)
		if out.Failed+out.Remaining > 0 {
			fmt.Fprintf(t, "%d failed, %d were not tried: repeat the command\n", out.Failed, out.Remaining)
		}
	})
}
