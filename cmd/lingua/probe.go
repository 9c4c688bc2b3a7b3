package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type probeNodeCmd struct {
	apiClient
	ID      string        `arg:"" help:"The node."`
	From    string        `help:"Source language; default: the first direction that the node serves." placeholder:"LANG"`
	To      string        `help:"Target language." placeholder:"LANG"`
	Timeout time.Duration `help:"After what time the probe fails, at most 1m." default:"10s"`
}

// Run sends a synthetic utterance through a node and prints how it went. A probe that fails is an error.
func (c *probeNodeCmd) Run(ctx context.Context, io streams) error {
	in := wire.ProbeRequest{SrcLang: c.From, TgtLang: c.To, TimeoutMS: c.Timeout.Milliseconds()}
	var out wire.ProbeResult
	if err := c.requestWithin(ctx, c.Timeout+requestTimeout, "POST", "/v1/nodes/"+url.PathEscape(c.ID)+"/probe", in, &out); err != nil {
		return err
	}
	if err := c.print(io.out, out, func(t *tabwriter.Writer) { writeProbe(t, &out) }); err != nil {
		return err
	}
	if !out.OK {
		return fmt.Errorf("the probe of %s failed: %s", out.NodeID, out.Reason)
	}
	return nil
}

// writeProbe writes how a probe went, with the times of the stages that it reached.
func writeProbe(t *tabwriter.Writer, out *wire.ProbeResult) {
	var stages []string
	for _, s := range []struct {
		name string
		ms   *int64
	}{{"reserve", out.ReserveMS}, {"deliver", out.DeliverMS}, {"ack", out.AckMS}, {"result", out.ResultMS}} {
		if s.ms != nil {
			stages = append(stages, fmt.Sprintf("%s %d", s.name, *s.ms))
		}
	}
	fmt.Fprintf(t, "%s %s→%s: %s after %d ms (%s)\n", out.NodeID, out.SrcLang, out.TgtLang, out.State, out.TotalMS,
		strings.Join(stages, ", "))
	if out.Reason != "" {
		fmt.Fprintf(t, "reason: %s\n", strings.TrimSpace(out.Reason+" "+printable(out.Detail)))
	}
	fmt.Fprintf(t, "job: %s\n", out.JobID)
}
