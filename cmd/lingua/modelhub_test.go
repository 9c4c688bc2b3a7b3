package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestModelHub runs a stand-in with the services of a file, asks it, makes it fail, and stops it.
func TestModelHub(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "services.json")
	want := health.HubList{Services: []health.HubService{{ServiceID: "asr", Versions: []string{"1"}}}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listening := make(chan struct{})
	out := &watchedOutput{until: regexp.MustCompile(`services at `), seen: func() { close(listening) }}
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, []string{"modelhub", "--listen", "127.0.0.1:0", "--services", file, "--token", "hub-token"}, streams{out: out, err: out})
	}()
	select {
	case <-listening:
	case c := <-code:
		t.Fatalf("exit %d\n%s", c, out.text())
	}
	address := regexp.MustCompile(`1 services at (http://127\.0\.0\.1:\d+)` + lab.ServicesPath).FindStringSubmatch(out.text())
	if address == nil {
		t.Fatalf("it prints %q", out.text())
	}
	client := &http.Client{}
	defer client.CloseIdleConnections()
	send := func(method, path, body string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, address[1]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer hub-token")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, text
	}
	_, body := send("GET", lab.ServicesPath, "")
	var got health.HubList
	if err := json.Unmarshal(body, &got); err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v: %s", err, body)
	}
	send("PUT", lab.FaultPath, "fail")
	if status, _ := send("GET", lab.ServicesPath, ""); status != http.StatusServiceUnavailable {
		t.Errorf("with a fault it answers %d", status)
	}
	cancel()
	if c := <-code; c != exitOK {
		t.Errorf("exit %d\n%s", c, out.text())
	}
}

func TestModelHubUsage(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"services": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"--listen 0.0.0.0:1":            "--listen",
		"--listen nonsense":             "--listen",
		"--fault explode":               "--fault",
		"--services " + bad:             "no services",
		"--services /nowhere/list.json": "--services",
	} {
		got := runCommandEnv(cancelledContext(), nil, append([]string{"modelhub"}, strings.Fields(line)...)...)
		if got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("lingua modelhub %s: exit %d, want %q\n%s", line, got.code, want, got.err)
		}
	}
}

// TestExplainShowsServices: what is wrong with the services of a node is below it, and the required ones are named.
func TestExplainShowsServices(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	writeExplanation(table, &wire.ExplainResponse{
		SrcLang: "en", TgtLang: "zh", Verdict: "OK", Detail: "1 of 2 nodes.", Reasons: map[string]int{"SERVICE_MARKED_UNAVAILABLE": 1},
		RequiredServices: []wire.CatalogService{{ServiceID: "nmt", Listed: true, Name: "Translation", Versions: []string{"2", "1"}}, {ServiceID: "odd"}},
		Nodes: []wire.ExplainNode{
			{NodeID: "n1", MaxConcurrentJobs: 2, Reason: "SERVICE_MARKED_UNAVAILABLE", Services: []wire.ExplainService{
				{ServiceID: "nmt", Version: "2", Status: "ready", MarkedMS: 41_700}, {ServiceID: "tts", Status: "installing"}, {ServiceID: "asr", Status: "ready"},
			}},
			{NodeID: "n2", MaxConcurrentJobs: 2, Eligible: true, Services: []wire.ExplainService{{ServiceID: "nmt", Version: "1", Status: "ready"}}},
		},
	})
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"en→zh: OK. 1 of 2 nodes.", "SERVICE_MARKED_UNAVAILABLE 1", "service nmt Translation, 2, 1", "service odd is not listed by the ModelHub", "",
		"NODE IN FLIGHT VERDICT", "n1 0 of 2 SERVICE_MARKED_UNAVAILABLE", "nmt@2: reported as unavailable, for another 42s", "tts: installing", "n2 0 of 2 eligible",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
