package main

import (
	"strings"
	"testing"
	"text/tabwriter"
	"unicode"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestTextsOfNodesAreEscaped: a name or a detail that a node, a client or a ModelHub has chosen cannot control the terminal, nor make a line of
// its own.
func TestTextsOfNodesAreEscaped(t *testing.T) {
	t.Parallel()
	const hostile, escaped = "asr\x1b[2J\a\nDONE", `asr\x1b[2J\a\nDONE`
	catalog := []wire.CatalogService{{ServiceID: hostile, Listed: true, Name: hostile, Versions: []string{hostile}}, {ServiceID: hostile}}
	for name, write := range map[string]func(*tabwriter.Writer){
		"explain": func(w *tabwriter.Writer) {
			writeExplanation(w, &wire.ExplainResponse{
				Detail: hostile, RequiredServices: catalog,
				Nodes: []wire.ExplainNode{{Detail: hostile, Services: []wire.ExplainService{{ServiceID: hostile, Version: hostile, MarkedMS: 1000}, {ServiceID: hostile, Status: "error"}}}},
			})
		},
		"stats": func(w *tabwriter.Writer) {
			printServices(w, &wire.StatsCompute{
				Services: []wire.ServiceUse{{ServiceID: hostile, Version: hostile, LatestVersion: hostile, Name: hostile}}, NotInstalled: catalog,
			})
		},
		"jobs": func(w *tabwriter.Writer) {
			writeJob(w, &wire.JobDetail{Job: wire.Job{Reason: "NODE_FAILED", Detail: hostile}})
		},
		"events": func(w *tabwriter.Writer) { _, _ = w.Write([]byte(formatEvent(&wire.Event{Detail: hostile}))) },
	} {
		var out strings.Builder
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		write(w)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unicode.IsControl) || strings.Contains(text, "\nDONE") || !strings.Contains(text, escaped) {
			t.Errorf("%s: %q", name, text)
		}
	}
}
