package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

type jobsCmd struct {
	apiClient
	ID       string `arg:"" optional:"" help:"Show this job with its attempts."`
	State    string `help:"Only jobs in this state, such as dispatched, acked, retrying, done, failed or cancelled." placeholder:"STATE"`
	Node     string `help:"Only jobs of this node." placeholder:"ID"`
	Session  string `help:"Only jobs of this session." placeholder:"ID"`
	Language string `help:"Only jobs from or to this language." placeholder:"LANG"`
	Region   string `help:"Only jobs that require this region." placeholder:"NAME"`
	Limit    int    `help:"Maximum number of jobs." default:"20"`
	All      bool   `help:"List all jobs, without a limit."`
}

// Validate checks the flags before a request is sent.
func (c *jobsCmd) Validate() error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	if c.State != "" {
		if _, err := core.ParseState(strings.ToUpper(c.State)); err != nil {
			return fmt.Errorf("--state: %w", err)
		}
	}
	return nil
}

// Run lists jobs.
func (c *jobsCmd) Run(ctx context.Context, io streams) error {
	if c.ID != "" {
		var j wire.Job
		if err := c.request(ctx, "GET", "/v1/jobs/"+url.PathEscape(c.ID), nil, &j); err != nil {
			return err
		}
		return c.print(io.out, j, func(t *tabwriter.Writer) { writeJob(t, &j) })
	}
	q := makeQuery("state", strings.ToUpper(c.State), "node_id", c.Node, "session_id", c.Session, "language", c.Language, "region", c.Region)
	list := wire.JobList{Jobs: []wire.Job{}}
	err := fetchPages(ctx, &c.apiClient, "/v1/jobs", q, maxEntries(c.Limit, c.All), func(page *wire.JobList) (int, string) {
		list.Jobs, list.NextCursor, list.Partial = append(list.Jobs, page.Jobs...), page.NextCursor, list.Partial || page.Partial
		return len(page.Jobs), page.NextCursor
	})
	if err != nil {
		return err
	}
	if list.Partial {
		fmt.Fprintln(io.err, "some instances were not asked, or did not answer: jobs that ended there may be missing")
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		if len(list.Jobs) == 0 {
			fmt.Fprintln(t, "no job matches")
			return
		}
		fmt.Fprintln(t, "JOB\tSTATE\tDIRECTION\tNODE\tATTEMPT\tREASON\tSESSION\tCREATED")
		for _, j := range list.Jobs {
			fmt.Fprintf(t, "%s\t%s\t%s→%s\t%s\t%d\t%s\t%s\t%s\n", j.JobID, j.State, j.SrcLang, j.TgtLang, j.NodeID,
				j.AttemptID, j.Reason, j.SessionID, formatAge(j.CreatedMS))
		}
		writeMoreHint(t, list.NextCursor)
	})
}

func writeJob(t *tabwriter.Writer, j *wire.Job) {
	fmt.Fprintf(t, "job\t%s\nrequest\t%s\nsession\t%s\ndirection\t%s→%s\nstate\t%s\n", j.JobID, j.RequestID, j.SessionID, j.SrcLang, j.TgtLang, j.State)
	if j.Reason != "" {
		fmt.Fprintf(t, "reason\t%s\n", strings.TrimSpace(j.Reason+" "+j.Detail))
	}
	fmt.Fprintln(t, "\nATTEMPT\tNODE\tDURATION\tOUTCOME")
	for _, a := range j.Attempts {
		duration, outcome := "running", ""
		if a.EndedMS != 0 {
			duration = (time.Duration(a.EndedMS-a.StartedMS) * time.Millisecond).String()
			outcome = cmp.Or(a.Reason, "done")
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", a.AttemptID, a.NodeID, duration, outcome)
	}
}
