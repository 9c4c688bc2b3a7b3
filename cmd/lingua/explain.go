package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type explainCmd struct {
	apiClient
	From     string   `help:"Source language." required:"" placeholder:"LANG"`
	To       string   `help:"Target language." required:"" placeholder:"LANG"`
	TTS      bool     `help:"Require speech in the target language." name:"tts"`
	Node     string   `help:"Preferred node." placeholder:"ID"`
	Strict   bool     `help:"Accept only the preferred node."`
	Service  []string `help:"A required service; may be repeated." placeholder:"ID"`
	Model    []string `help:"A required model; may be repeated." placeholder:"ID"`
	Feature  []string `help:"A required feature; may be repeated." placeholder:"NAME"`
	Region   string   `help:"Only nodes in this region." placeholder:"NAME"`
	Near     string   `name:"preferred-region" help:"Nodes in this region first." placeholder:"NAME"`
	Session  string   `help:"Session of the request." default:"explain" placeholder:"ID"`
	TenantID string   `help:"Tenant of the request." name:"tenant" placeholder:"ID"`
	// MaxWait is rounded to milliseconds.
	MaxWait time.Duration `help:"How long the request would wait for a slot, at most 1m, such as 5s." placeholder:"DURATION"`
}

// Run prints how a dispatch would be decided.
func (c *explainCmd) Run(ctx context.Context, io streams) error {
	in := wire.DispatchRequest{
		SessionID: c.Session, TenantID: c.TenantID, SrcLang: c.From, TgtLang: c.To,
		Options: wire.DispatchOptions{
			RequireTTS: c.TTS, Strict: c.Strict, RequiredServices: c.Service, RequiredModels: c.Model, Features: c.Feature,
			Region: c.Region, PreferredRegion: c.Near,
		},
	}
	if c.Node != "" {
		in.Options.PreferredNodeID = &c.Node
	}
	if c.MaxWait != 0 {
		ms := c.MaxWait.Milliseconds()
		in.Options.MaxWaitMS = &ms
	}
	return show(ctx, &c.apiClient, io, "POST", "/v1/dispatch/explain", in, writeExplanation)
}

func writeExplanation(t *tabwriter.Writer, e *wire.ExplainResponse) {
	fmt.Fprintf(t, "%s→%s: %s. %s\n", e.SrcLang, e.TgtLang, e.Verdict, printable(e.Detail))
	for _, reason := range slices.Sorted(maps.Keys(e.Reasons)) {
		fmt.Fprintf(t, "  %s\t%d\n", reason, e.Reasons[reason])
	}
	for _, s := range e.RequiredServices {
		if s.Listed {
			fmt.Fprintf(t, "  service %s\t%s\n", printable(s.ServiceID),
				printable(strings.Join(append([]string{cmp.Or(s.Name, s.ServiceID)}, s.Versions...), ", ")))
		} else {
			fmt.Fprintf(t, "  service %s\tis not listed by the ModelHub\n", printable(s.ServiceID))
		}
	}
	if e.Wait != nil {
		fmt.Fprintln(t, printable(e.Wait.Detail))
	}
	writeExplainedPools(t, e)
	if len(e.Nodes) == 0 {
		return
	}
	pool := func(string) string { return "" } // a column if there are pools
	if len(e.Pools) > 0 {
		pool = func(text string) string { return text + "\t" }
	}
	fmt.Fprintf(t, "\nNODE\t%sIN FLIGHT\tVERDICT\n", pool("POOL"))
	for _, n := range e.Nodes {
		verdict := cmp.Or(n.Reason, "eligible")
		switch {
		case n.Fallback && n.Preference:
			verdict += " (chosen only after all others)"
		case n.Fallback && n.Reason == "":
			verdict = "only after eligible pools"
		case n.Preference:
			verdict += " (chosen only if no other node is eligible)"
		}
		if n.Detail != "" {
			verdict += ": " + printable(n.Detail)
		}
		fmt.Fprintf(t, "%s\t%s%d of %d\t%s\n", n.NodeID, pool(poolName(n.PoolID)), n.InFlight, n.MaxConcurrentJobs, verdict)
		for i := range n.Services {
			if text := describeService(&n.Services[i]); text != "" {
				fmt.Fprintf(t, "\t%s\t  %s\n", pool(""), printable(text))
			}
		}
	}
	if e.Truncated {
		fmt.Fprintln(t, "(there are more)")
	}
}

// describeService describes what is wrong with a service of a node; empty if nothing is.
func describeService(s *wire.ExplainService) string {
	name := s.ServiceID
	if s.Version != "" {
		name += "@" + s.Version
	}
	switch {
	case s.MarkedMS > 0:
		return fmt.Sprintf("%s: reported as unavailable, for another %s", name,
			(time.Duration(s.MarkedMS) * time.Millisecond).Round(time.Second))
	case s.Status != "ready":
		return name + ": " + s.Status
	}
	return ""
}
