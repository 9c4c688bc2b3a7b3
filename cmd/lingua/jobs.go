package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

type jobsCmd struct {
	apiClient
	ID       string `arg:"" optional:"" help:"Show this job with its attempts."`
	State    string `help:"Only jobs in this state, such as dispatched, acked, retrying, done, failed or cancelled; open: those that have not ended, ended: the others." placeholder:"STATE"`
	Reason   string `help:"Only jobs that ended, or of which an attempt ended, for this reason, such as node_lost." placeholder:"REASON"`
	Node     string `help:"Only jobs that this node has or had." placeholder:"ID"`
	Session  string `help:"Only jobs of this session." placeholder:"ID"`
	Language string `help:"Only jobs from or to this language." placeholder:"LANG"`
	Src      string `help:"Only jobs from this language." placeholder:"LANG"`
	Tgt      string `help:"Only jobs to this language." placeholder:"LANG"`
	Region   string `help:"Only jobs that require this region." placeholder:"NAME"`
	Tenant   string `help:"Only jobs of this tenant." placeholder:"ID"`
	Search   string `help:"Only jobs whose ids contain this." placeholder:"TEXT"`
	// Since and Until are durations before now.
	Since time.Duration `help:"Only jobs that were created at most this long ago, such as 15m." placeholder:"DURATION"`
	Until time.Duration `help:"Only jobs that were created longer ago than this." placeholder:"DURATION"`
	Limit int           `help:"Maximum number of jobs." default:"20"`
	All   bool          `help:"List all jobs, without a limit."`
}

// Validate checks the flags before a request is sent.
func (c *jobsCmd) Validate() error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	if name := stateFilter(c.State); name != "" && name != stateOpen && name != stateEnded {
		if _, err := core.ParseState(name); err != nil {
			return fmt.Errorf("--state: %w; or open or ended", err)
		}
	}
	return nil
}

// The filters by state that are not the name of one.
const (
	stateOpen  = "open"
	stateEnded = "ended"
)

// stateFilter returns the filter by state as the API has it.
func stateFilter(given string) string {
	if lower := strings.ToLower(given); lower == stateOpen || lower == stateEnded {
		return lower
	}
	return strings.ToUpper(given)
}

// Run lists jobs.
func (c *jobsCmd) Run(ctx context.Context, io streams) error {
	if c.ID != "" {
		return show(ctx, &c.apiClient, io, "GET", "/v1/jobs/"+url.PathEscape(c.ID)+"?decisions=true", nil, writeJob)
	}
	q := makeQuery("state", stateFilter(c.State), "reason", strings.ToUpper(c.Reason), "node_id", c.Node, "session_id", c.Session,
		"language", c.Language, "src_lang", c.Src, "tgt_lang", c.Tgt, "region", c.Region, "tenant_id", c.Tenant, "search", c.Search,
		"since", millisAgo(c.Since), "until", millisAgo(c.Until))
	list := wire.JobList{Jobs: []wire.Job{}}
	err := fetchPages(ctx, &c.apiClient, "/v1/jobs", q, maxEntries(c.Limit, c.All), func(page *wire.JobList) (int, string) {
		list.Jobs, list.NextCursor, list.Partial = append(list.Jobs, page.Jobs...), page.NextCursor, list.Partial || page.Partial
		list.Incomplete = page.Incomplete
		return len(page.Jobs), page.NextCursor
	})
	if err != nil {
		return err
	}
	if list.Partial {
		fmt.Fprintln(io.err, strings.TrimSpace("some instances were not asked, or did not answer: jobs that ended there may be missing "+
			strings.Join(list.Incomplete, " ")))
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

// millisAgo is a time before now in Unix milliseconds; empty for none.
func millisAgo(ago time.Duration) string {
	if ago == 0 {
		return ""
	}
	return strconv.FormatInt(time.Now().Add(-ago).UnixMilli(), 10)
}

func writeJob(t *tabwriter.Writer, j *wire.JobDetail) {
	fmt.Fprintf(t, "job\t%s\nrequest\t%s\nsession\t%s\ndirection\t%s→%s\nstate\t%s\n", j.JobID, j.RequestID, j.SessionID, j.SrcLang,
		j.TgtLang, j.State)
	if j.Reason != "" {
		fmt.Fprintf(t, "reason\t%s\n", printable(strings.TrimSpace(j.Reason+" "+j.Detail)))
	}
	switch {
	case j.PoolBound:
		fmt.Fprintf(t, "pool\t%s, to which its tenant was bound\n", j.PoolID)
	case j.PoolID != "":
		fmt.Fprintf(t, "pool\t%s\n", j.PoolID)
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
	if len(j.Decisions) > 0 {
		fmt.Fprintln(t, "\nATTEMPT\tCANDIDATE\tVERDICT")
	}
	for _, d := range j.Decisions {
		for _, c := range d.Candidates {
			verdict := cmp.Or(c.Reason, "not needed")
			if c.Chosen {
				verdict = "chosen"
			}
			fmt.Fprintf(t, "%d\t%s\t%s\n", d.AttemptID, c.NodeID, verdict)
		}
		for _, reason := range slices.Sorted(maps.Keys(d.Others)) {
			fmt.Fprintf(t, "%d\t%d others\t%s\n", d.AttemptID, d.Others[reason], reason)
		}
	}
	if len(j.Incomplete) > 0 {
		fmt.Fprintf(t, "\nnot asked, or without an answer\t%s\n", strings.Join(j.Incomplete, " "))
	}
}
