package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

type nodesCmd struct {
	remote
	ID       string `arg:"" optional:"" help:"Show only this node."`
	State    string `help:"Only nodes in this state: ready, degraded, draining, offline or silent." placeholder:"STATE"`
	Language string `help:"Only nodes that have this language." placeholder:"LANG"`
	Region   string `help:"Only nodes of this region." placeholder:"NAME"`
	Limit    int    `help:"At most this many." default:"1000"`
	All      bool   `help:"All of them, however many they are."`
}

// Validate checks what is asked for before anybody is asked.
func (c *nodesCmd) Validate() error { return checkLimit(c.Limit) }

// Run lists nodes.
func (c *nodesCmd) Run(ctx context.Context, io streams) error {
	if c.ID != "" {
		var n wire.Node
		if err := c.ask(ctx, "GET", "/v1/nodes/"+url.PathEscape(c.ID), nil, &n); err != nil {
			return err
		}
		return c.print(io.out, n, func(t *tabwriter.Writer) { writeNodes(t, []wire.Node{n}) })
	}
	list := wire.NodeList{Nodes: []wire.Node{}}
	q := query("state", strings.ToLower(c.State), "language", c.Language, "region", c.Region)
	narrowed := len(q) > 0
	err := follow(ctx, &c.remote, "/v1/nodes", q, howMany(c.Limit, c.All), func(page *wire.NodeList) (int, string) {
		list.Nodes, list.NextCursor = append(list.Nodes, page.Nodes...), page.NextCursor
		return len(page.Nodes), page.NextCursor
	})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		switch {
		case len(list.Nodes) == 0 && narrowed:
			fmt.Fprintln(t, "no such nodes are registered")
			return
		case len(list.Nodes) == 0:
			fmt.Fprintln(t, "no nodes are registered")
			return
		}
		writeNodes(t, list.Nodes)
		writeMore(t, list.NextCursor)
	})
}

func writeNodes(t *tabwriter.Writer, nodes []wire.Node) {
	fmt.Fprintln(t, "NODE\tHEALTH\tRESERVED\tRUNNING\tOTHER\tMAX\tLANGUAGES\tCONNECTED WITH\tLAST HEARD")
	for _, n := range nodes {
		health := n.Health
		switch {
		case n.Disconnected && n.Online:
			health = "disconnected"
		case !n.Online && health != core.HealthOffline.String():
			health = "silent"
		case n.Held:
			health += ", held"
		case n.SetAsideMS > 0:
			health += fmt.Sprintf(", set aside %s", (time.Duration(n.SetAsideMS) * time.Millisecond).Round(time.Second))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", n.NodeID, health, n.Reserved, n.Running, n.Foreign,
			n.MaxConcurrentJobs, strings.Join(n.SemanticLangs, " "), cmp.Or(n.Incarnation, "–"), ago(n.LastHeartbeatMS))
	}
}

// ago says how long ago a moment was.
func ago(unixMS int64) string {
	d := time.Since(time.UnixMilli(unixMS))
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return d.Round(time.Second).String() + " ago"
	}
	return d.Round(time.Minute).String() + " ago"
}

type jobsCmd struct {
	remote
	ID       string `arg:"" optional:"" help:"Show this job with its attempts."`
	State    string `help:"Only jobs in this state, such as dispatched, acked, retrying, done, failed or cancelled." placeholder:"STATE"`
	Node     string `help:"Only jobs of this node." placeholder:"ID"`
	Session  string `help:"Only jobs of this session." placeholder:"ID"`
	Language string `help:"Only jobs in which this language is spoken or wanted." placeholder:"LANG"`
	Region   string `help:"Only jobs that asked for this region." placeholder:"NAME"`
	Limit    int    `help:"At most this many." default:"20"`
	All      bool   `help:"All of them, however many they are."`
}

// Validate checks what is asked for before anybody is asked.
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
		if err := c.ask(ctx, "GET", "/v1/jobs/"+url.PathEscape(c.ID), nil, &j); err != nil {
			return err
		}
		return c.print(io.out, j, func(t *tabwriter.Writer) { writeJob(t, &j) })
	}
	q := query("state", strings.ToUpper(c.State), "node_id", c.Node, "session_id", c.Session, "language", c.Language, "region", c.Region)
	list := wire.JobList{Jobs: []wire.Job{}}
	err := follow(ctx, &c.remote, "/v1/jobs", q, howMany(c.Limit, c.All), func(page *wire.JobList) (int, string) {
		list.Jobs, list.NextCursor = append(list.Jobs, page.Jobs...), page.NextCursor
		return len(page.Jobs), page.NextCursor
	})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		if len(list.Jobs) == 0 {
			fmt.Fprintln(t, "no such jobs are known")
			return
		}
		fmt.Fprintln(t, "JOB\tSTATE\tDIRECTION\tNODE\tATTEMPT\tREASON\tSESSION\tBEGUN")
		for _, j := range list.Jobs {
			fmt.Fprintf(t, "%s\t%s\t%s→%s\t%s\t%d\t%s\t%s\t%s\n", j.JobID, j.State, j.SrcLang, j.TgtLang, j.NodeID,
				j.AttemptID, j.Reason, j.SessionID, ago(j.CreatedMS))
		}
		writeMore(t, list.NextCursor)
	})
}

func writeJob(t *tabwriter.Writer, j *wire.Job) {
	fmt.Fprintf(t, "job\t%s\nrequest\t%s\nsession\t%s\ndirection\t%s→%s\nstate\t%s\n", j.JobID, j.RequestID, j.SessionID, j.SrcLang, j.TgtLang, j.State)
	if j.Reason != "" {
		fmt.Fprintf(t, "reason\t%s\n", strings.TrimSpace(j.Reason+" "+j.Detail))
	}
	fmt.Fprintln(t, "\nATTEMPT\tNODE\tTOOK\tENDED FOR")
	for _, a := range j.Attempts {
		took, why := "running", ""
		if a.EndedMS != 0 {
			took = (time.Duration(a.EndedMS-a.StartedMS) * time.Millisecond).String()
			why = a.Reason
			if why == "" {
				why = "its result"
			}
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", a.AttemptID, a.NodeID, took, why)
	}
}

type poolsCmd struct {
	remote
	Language string `help:"Only directions from or to this language." placeholder:"LANG"`
	Region   string `help:"Count only nodes of this region." placeholder:"NAME"`
	Node     string `help:"Count only this node." placeholder:"ID"`
	Limit    int    `help:"At most this many." default:"1000"`
	All      bool   `help:"All of them, however many they are."`
}

// Validate checks what is asked for before anybody is asked.
func (c *poolsCmd) Validate() error { return checkLimit(c.Limit) }

// Run lists directions.
func (c *poolsCmd) Run(ctx context.Context, io streams) error {
	list := wire.PoolList{Pools: []wire.Pool{}}
	q := query("language", c.Language, "region", c.Region, "node_id", c.Node)
	err := follow(ctx, &c.remote, "/v1/pools", q, howMany(c.Limit, c.All), func(page *wire.PoolList) (int, string) {
		list.Pools, list.Truncated, list.NextCursor = append(list.Pools, page.Pools...), page.Truncated, page.NextCursor
		return len(page.Pools), page.NextCursor
	})
	if err != nil {
		return err
	}
	return c.print(io.out, list, func(t *tabwriter.Writer) {
		if len(list.Pools) == 0 {
			fmt.Fprintln(t, "no direction is served: no nodes are registered")
			return
		}
		fmt.Fprintln(t, "DIRECTION\tNODES\tREADY\tSLOTS\tTAKEN")
		for _, p := range list.Pools {
			fmt.Fprintf(t, "%s→%s\t%d\t%d\t%d\t%d\n", p.SrcLang, p.TgtLang, p.Nodes, p.Ready, p.Capacity, p.InFlight)
		}
		writeMore(t, list.NextCursor)
	})
}

type explainCmd struct {
	remote
	From     string   `help:"Language that was spoken." required:"" placeholder:"LANG"`
	To       string   `help:"Language that is wanted." required:"" placeholder:"LANG"`
	TTS      bool     `help:"The target must be spoken." name:"tts"`
	Node     string   `help:"The preferred node." placeholder:"ID"`
	Strict   bool     `help:"The preferred node or none."`
	Service  []string `help:"A required service; may be repeated." placeholder:"ID"`
	Model    []string `help:"A required model; may be repeated." placeholder:"ID"`
	Feature  []string `help:"A required feature; may be repeated." placeholder:"NAME"`
	Region   string   `help:"Only nodes of this region." placeholder:"NAME"`
	Session  string   `help:"The session that asks." default:"explain" placeholder:"ID"`
	TenantID string   `help:"The tenant that asks." name:"tenant" placeholder:"ID"`
}

// Run explains.
func (c *explainCmd) Run(ctx context.Context, io streams) error {
	in := wire.DispatchRequest{
		SessionID: c.Session, TenantID: c.TenantID, SrcLang: c.From, TgtLang: c.To,
		Options: wire.DispatchOptions{
			RequireTTS: c.TTS, Strict: c.Strict, RequiredServices: c.Service, RequiredModels: c.Model, Features: c.Feature, Region: c.Region,
		},
	}
	if c.Node != "" {
		in.Options.PreferredNodeID = &c.Node
	}
	var x wire.ExplainResponse
	if err := c.ask(ctx, "POST", "/v1/dispatch/explain", in, &x); err != nil {
		return err
	}
	return c.print(io.out, x, func(t *tabwriter.Writer) {
		fmt.Fprintf(t, "%s→%s: %s. %s\n", x.SrcLang, x.TgtLang, x.Verdict, x.Detail)
		for _, reason := range slices.Sorted(maps.Keys(x.Reasons)) {
			fmt.Fprintf(t, "  %s\t%d\n", reason, x.Reasons[reason])
		}
		if len(x.Nodes) == 0 {
			return
		}
		fmt.Fprintln(t, "\nNODE\tTAKEN\tVERDICT")
		for _, n := range x.Nodes {
			verdict := "can take it"
			if n.Reason != "" {
				verdict = n.Reason
			}
			if n.Preference {
				verdict += " (only if nobody else can)"
			}
			fmt.Fprintf(t, "%s\t%d of %d\t%s\n", n.NodeID, n.InFlight, n.MaxConcurrentJobs, verdict)
		}
		if x.Truncated {
			fmt.Fprintln(t, "(there are more)")
		}
	})
}

type drainCmd struct {
	remote
	ID string `arg:"" help:"The node."`
}

// Run drains a node.
func (c *drainCmd) Run(ctx context.Context, io streams) error {
	return c.change(ctx, io, c.ID, "drain", "gets nothing new")
}

type resumeCmd struct {
	remote
	ID string `arg:"" help:"The node."`
}

// Run resumes a node.
func (c *resumeCmd) Run(ctx context.Context, io streams) error {
	return c.change(ctx, io, c.ID, "resume", "takes jobs again")
}

func (r *remote) change(ctx context.Context, io streams, id, what, said string) error {
	var n wire.Node
	if err := r.ask(ctx, "POST", "/v1/nodes/"+url.PathEscape(id)+"/"+what, nil, &n); err != nil {
		return err
	}
	return r.print(io.out, n, func(t *tabwriter.Writer) {
		fmt.Fprintf(t, "%s %s (%s, %d of %d slots taken)\n", n.NodeID, said, n.Health, n.EffectiveLoad, n.MaxConcurrentJobs)
	})
}
