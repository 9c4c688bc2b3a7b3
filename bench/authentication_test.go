package bench

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/internal/config"
)

// BenchmarkAuthenticationShare profiles POST /v1/dispatch/f2f with a key and reports which part of the CPU time of a request is its
// authentication: the key is hashed, found, and compared with the list of revocations.
func BenchmarkAuthenticationShare(b *testing.B) {
	const key = "the-key-of-the-benchmark-0123456789"
	s, _ := inprocess.Start(b, 50, 4, false, func(c *config.Config) { c.Auth.OperatorKeys = []string{key} })
	server := httptest.NewServer(s.Server.Handler())
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: httpClients, MaxIdleConns: httpClients}}
	defer client.CloseIdleConnections()
	measureRate(b, client, server.URL+"/v1/dispatch/f2f", key, httpWindow) // warm-up

	var rate, requests, authentications float64
	rounds := 0.0
	for b.Loop() {
		rounds++
		file := filepath.Join(b.TempDir(), "cpu.prof")
		out, err := os.Create(file)
		if err != nil {
			b.Fatal(err)
		}
		if err := pprof.StartCPUProfile(out); err != nil {
			b.Fatal(err)
		}
		rate += measureRate(b, client, server.URL+"/v1/dispatch/f2f", key, 10*time.Second)
		pprof.StopCPUProfile()
		if err := out.Close(); err != nil {
			b.Fatal(err)
		}
		seconds := cumulativeTimes(b, file)
		requests += seconds[`net/http.(*conn).serve`]
		authentications += seconds[`github.com/lingua-scheduler/lingua/internal/server.(*accessControl).authenticate`]
	}
	if requests == 0 || authentications == 0 {
		b.Fatalf("the profiles have %v s of requests and %v s of authentication", requests, authentications)
	}
	b.ReportMetric(100*authentications/requests, "%-of-request")
	b.ReportMetric(rate/rounds, "dispatch/s")
	b.ReportMetric(0, "ns/op")
}

// cumulativeTimes reads a CPU profile and returns the seconds that were spent in each function and in what it calls.
func cumulativeTimes(b *testing.B, profile string) map[string]float64 {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "go", "tool", "pprof", "-top", "-cum", "-unit=s", "-nodecount=100000", "-nodefraction=0", profile).Output()
	if err != nil {
		b.Fatal(err)
	}
	seconds := make(map[string]float64)
	for _, m := range regexp.MustCompile(`(?m)([0-9.]+)s\s+[0-9.]+%\s+(\S+)(?: \(inline\))?$`).FindAllSubmatch(out, -1) {
		if seconds[string(m[2])], err = strconv.ParseFloat(string(m[1]), 64); err != nil {
			b.Fatal(err)
		}
	}
	return seconds
}
