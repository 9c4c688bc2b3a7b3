package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestProbeCommand checks the output and the exit code of a probe that succeeds, of one that fails, and of one that is not sent.
func TestProbeCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	report := func(path, status string) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			var a wire.Assignment
			if err := json.NewDecoder(r.Body).Decode(&a); err != nil || !a.Probe {
				t.Errorf("delivered %+v, %v", a, err)
			}
			s.post(t, path, `{"job_id":%q,"attempt_id":1,"node_id":%q,%s}`, a.JobID, a.NodeID, status)
		}
	}
	for id, handler := range map[string]http.HandlerFunc{
		"good": report("/v1/job/done", `"status":"ok","result":{"text_tgt":"x"}`), "bad": report("/v1/job/fail", `"reason":"OUT_OF_MEMORY"`),
	} {
		callback := httptest.NewServer(handler)
		t.Cleanup(callback.Close)
		s.post(t, "/v1/node/register", `{"node_id":%q,"semantic_langs":["en","zh"],"max_concurrent_jobs":1,"callback_url":%q}`, id, callback.URL)
	}
	lingua := func(args string) result { return runCommand(t, append(strings.Fields(args), "--server", s.url)...) }
	if got := lingua("nodes probe good"); got.code != exitOK || got.err != "" ||
		!regexp.MustCompile(`^good en→zh: DONE after \d+ ms \(reserve \d+, deliver \d+, result \d+\)\njob: job-\w+\n$`).MatchString(got.out) {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if got := lingua("nodes probe bad --from zh --to en --timeout 5s"); got.code != exitFailed || got.err != "lingua: the probe of bad failed: NODE_FAILED\n" ||
		!strings.HasPrefix(got.out, "bad zh→en: FAILED after ") || !strings.Contains(got.out, "reason: NODE_FAILED OUT_OF_MEMORY\n") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	var out wire.ProbeResult
	if got := lingua("nodes probe good --json"); got.code != exitOK || json.Unmarshal([]byte(got.out), &out) != nil || !out.OK {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	for args, want := range map[string]string{"unknown": "NOT_FOUND", "good --timeout 2m": "timeout_ms", "good --from en": "tgt_lang", "good --from fr --to en": "PREFERRED_NODE_NOT_CAPABLE"} {
		if got := lingua(fmt.Sprint("nodes probe ", args)); got.code != exitFailed || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit %d, want %s: %s%s", args, got.code, want, got.out, got.err)
		}
	}
}
