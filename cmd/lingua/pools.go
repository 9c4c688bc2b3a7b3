package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/wire"
)

type poolsCmd struct {
	apiClient
	ID string `arg:"" optional:"" help:"Show only this pool, with some of its nodes."`
}

// Run shows the capability pools.
func (c *poolsCmd) Run(ctx context.Context, io streams) error {
	var all wire.PoolOverview
	if err := c.request(ctx, "GET", "/api/v1/phase3/pools", nil, &all); err != nil {
		return err
	}
	if c.ID == "" {
		return c.print(io.out, all, func(t *tabwriter.Writer) { writePools(t, &all) })
	}
	i := slices.IndexFunc(all.Pools, func(p wire.Pool) bool { return p.PoolID == c.ID })
	if i < 0 {
		return fmt.Errorf("there is no pool %q; lingua pools lists them", c.ID)
	}
	return c.print(io.out, all.Pools[i], func(t *tabwriter.Writer) { writePool(t, &all.Pools[i]) })
}

// maxShownTenants is how many tenants of a pool the table names.
const maxShownTenants = 3

func writePools(t *tabwriter.Writer, all *wire.PoolOverview) {
	if !all.Enabled {
		fmt.Fprintf(t, "the nodes are not divided into pools (generation %d)\n", all.Generation)
		writePoolWarnings(t, all)
		return
	}
	strict := "not strict"
	if all.Strict {
		strict = "strict"
	}
	fmt.Fprintf(t, "generation %d, %s, %s, hash seed %d\n", all.Generation, all.MatchScope, strict, all.HashSeed)
	writePoolWarnings(t, all)
	fmt.Fprintln(t, "\nPOOL\tNODES\tONLINE\tREADY\tSLOTS USED\tASR\tNMT\tTTS\tTENANTS")
	for i := range all.Pools {
		p := &all.Pools[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d of %d\t%s\t%s\t%s\t%s\n", p.PoolID, p.Nodes.Total, p.Nodes.Online, p.Nodes.Ready, p.Slots.Used,
			p.Slots.Total,
			readyOf(p.CoreServices.ASR), readyOf(p.CoreServices.NMT), readyOf(p.CoreServices.TTS),
			cmp.Or(tenantsOf(p, maxShownTenants), "–"))
	}
	outside := &all.WithoutPool
	if outside.Nodes.Total == 0 {
		return
	}
	fmt.Fprintf(t, "\nwithout a pool: %d registered, %d online, %d ready\n", outside.Nodes.Total, outside.Nodes.Online, outside.Nodes.Ready)
	for i := range outside.Examples {
		n := &outside.Examples[i]
		state := ""
		if !n.Online {
			state = " (silent)"
		}
		fmt.Fprintf(t, "  %s%s: %s\n", n.NodeID, state, describeGap(&n.PoolGap))
	}
	if more := outside.Nodes.Total - len(outside.Examples); more > 0 {
		fmt.Fprintf(t, "  and %d more\n", more)
	}
}

// writePoolWarnings says what is not as the configuration of the instance says.
func writePoolWarnings(t *tabwriter.Writer, all *wire.PoolOverview) {
	if all.FileDiffers {
		fmt.Fprintln(t, "the configuration of this instance describes other pools: change it, or publish them with lingua config reload "+
			"--publish-pools")
	}
	if all.Problem != "" {
		fmt.Fprintln(t, printable(all.Problem))
	}
}

// readyOf is on how many nodes a stage is ready, of those that have it.
func readyOf(c wire.StageCount) string { return fmt.Sprintf("%d/%d", c.Ready, c.Installed) }

// tenantsOf lists tenants of a pool, and how many more there are.
func tenantsOf(p *wire.Pool, limit int) string {
	listed := strings.Join(p.Tenants[:min(len(p.Tenants), limit)], ", ")
	if more := p.TenantCount - min(len(p.Tenants), limit); more > 0 {
		listed += fmt.Sprintf(" and %d more", more)
	}
	return listed
}

func writePool(t *tabwriter.Writer, p *wire.Pool) {
	fmt.Fprintf(t, "pool\t%s\n", p.PoolID)
	if p.Name != "" {
		fmt.Fprintf(t, "name\t%s\n", printable(p.Name))
	}
	if len(p.RequiredServices) > 0 {
		fmt.Fprintf(t, "requires\t%s\n", printable(strings.Join(p.RequiredServices, " ")))
	}
	fmt.Fprintf(t, "nodes\t%d registered, %d online, %d ready\nslots\t%d of %d used\n", p.Nodes.Total, p.Nodes.Online, p.Nodes.Ready,
		p.Slots.Used, p.Slots.Total)
	for _, s := range []struct {
		name string
		wire.StageCount
	}{{"asr", p.CoreServices.ASR}, {"nmt", p.CoreServices.NMT}, {"tts", p.CoreServices.TTS}} {
		fmt.Fprintf(t, "%s\tready on %d of %d nodes that have it\n", s.name, s.Ready, s.Installed)
	}
	if p.TenantCount > 0 {
		fmt.Fprintf(t, "tenants\t%s\n", tenantsOf(p, len(p.Tenants)))
	}
	if len(p.Examples) == 0 {
		return
	}
	fmt.Fprintln(t, "\nNODE\tSTATE")
	for _, n := range p.Examples {
		state := n.Reason
		if n.Ready {
			state = "ready"
		}
		fmt.Fprintf(t, "%s\t%s\n", n.NodeID, state)
	}
	if more := p.Nodes.Total - len(p.Examples); more > 0 {
		fmt.Fprintf(t, "and %d more\n", more)
	}
}

// describeGap says why a node belongs to no pool.
func describeGap(g *wire.PoolGap) string {
	switch {
	case g.ClosestPool == "":
		return "it lacks services of every pool"
	case g.MissingService == "":
		return fmt.Sprintf("its credential names the pool %s, which does not exist", g.ClosestPool)
	case g.ByCredential:
		return fmt.Sprintf("lacks %s of the pool %s, which its credential names", printable(g.MissingService), g.ClosestPool)
	}
	return fmt.Sprintf("lacks %s of the closest pool, %s", printable(g.MissingService), g.ClosestPool)
}

// writeExplainedPools writes the pools of an explanation.
func writeExplainedPools(t *tabwriter.Writer, e *wire.ExplainResponse) {
	if len(e.Pools) == 0 {
		return
	}
	if e.BoundPool != "" {
		fmt.Fprintf(t, "\nThe tenant is bound to the pool %s.", e.BoundPool)
	}
	fmt.Fprintln(t, "\nPOOL\tNODES\tCAPABLE\tFREE\tVERDICT")
	for i := range e.Pools {
		p := &e.Pools[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\n", poolName(p.PoolID), p.Nodes, p.Capable, p.Free, describePool(p, e.BoundPool))
	}
	if e.PoolsTruncated {
		fmt.Fprintln(t, "(there are more)")
	}
}

// poolName is the name of a pool in a table.
func poolName(id string) string {
	if id == "" {
		return "(none)"
	}
	return id
}

// describePool says whether a job may run in a pool, and why it finds no slot there.
func describePool(p *wire.ExplainPool, bound string) string {
	verdict := "eligible"
	switch {
	case p.Why == "tenant_bound":
		return "not eligible: tenant bound to " + bound
	case p.Fallback && p.Why == "no_pool":
		verdict = "only after all pools"
	case p.Why == "no_pool":
		return "not eligible: in no pool"
	case p.Fallback:
		verdict = "only after eligible pools: does not require " + printable(p.Service)
	case p.Why != "":
		return "not eligible: does not require " + printable(p.Service)
	}
	if p.Reason != "" {
		verdict += ", none free: " + p.Reason
	}
	return verdict
}
