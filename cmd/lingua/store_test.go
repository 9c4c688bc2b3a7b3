package main

import (
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestStoreCommand shows the store of a running scheduler, which is in memory.
func TestStoreCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := runCommand(t, "store", "--server", s.url); got.code != exitOK || got.out != "memory, reachable\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}

// TestPrintStore checks how servers are shown: one that answers, a replica that was not asked, and one that does not answer.
func TestPrintStore(t *testing.T) {
	t.Parallel()
	ping, lag := 0.25, int64(42)
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	printStore(w, &wire.StoreStatus{
		Kind: "redis", Mode: "sentinel", Problem: "the shared store is full and takes no writes", CheckedMS: 1_000, GeneratedMS: 4_249, Latency: &wire.StoreLatency{P50MS: 0.2, P99MS: 1.5, MaxMS: 7, Calls: 900},
		Servers: []wire.StoreServer{
			{Address: "10.0.0.1:6379", Role: "primary", Healthy: true, Version: "7.0.15", UsedMemory: 3 << 20, MaxMemory: 1 << 30, Policy: "noeviction", PingMS: &ping, UptimeSeconds: 90, Clients: 4},
			{Address: "10.0.0.2:6379", Role: "replica", Healthy: true, LagBytes: &lag},
			{Address: "10.0.0.3:6379", Role: "primary"},
		},
	})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"redis, sentinel, NOT REACHABLE: the shared store is full and takes no writes",
		"the servers as they were now",
		"calls of this instance in the last minute: 900, median 0.2 ms, 99 % 1.5 ms, longest 7 ms",
		"",
		"SERVER ROLE HEALTHY SLOTS VERSION MEMORY MIB OF POLICY BEHIND BYTES PING MS CLIENTS UPTIME",
		"10.0.0.1:6379 primary yes – 7.0.15 3.0 1024.0 noeviction – 0.25 4 1m30s",
		"10.0.0.2:6379 replica yes – – – – – 42 – 0 –",
		"10.0.0.3:6379 primary no – – – – – – – 0 –",
	}
	if diff := cmp.Diff(want, rows(out.String())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
