package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestExistingNode: a node that knows only the design documents does jobs of requests and of a session, is explained and drained, and
// connects again after its instance was killed.
func TestExistingNode(t *testing.T) {
	t.Parallel()
	const anyLoad = "LINGUA_SCHEDULER_RESOURCE_LIMITS_CPU_MAX=1" // the node reports that of this machine
	c := startInstances(t, redistest.Start(t).URL(), 2, append(patient, "LINGUA_AUTH_REQUIRE_NODE_SECRET=false", anyLoad)...)
	python, err := findPython()
	if err != nil {
		t.Fatal(err)
	}
	node := startProgram(t, "n-0", commandIn(t, filepath.Join("..", "..", "examples", "existing-node"), python, "node.py",
		"--url", c.instances[0].URL(), "--token", nodeToken, "--id", "n-0"))
	node.waitLine("registered as n-0; warnings: ['max_concurrent_jobs is missing: the node gets 1 job at a time']")

	c.dispatchToExistingNode("before")
	s := &exampleSession{program: startProgram(t, "the session", exampleCommand(t, "python", "session", "--url", c.instances[1].URL(),
		"--token", c.mint("session"), "--mode", "manual", writeFile(t, noise(400)), writeFile(t, noise(300))))}
	want := []exampleResult{{Utterance: 0, TextSrc: "en to es", TextTgt: "EN TO ES"}, {Utterance: 1, TextSrc: "en to es", TextTgt: "EN TO ES"}}
	if diff := cmp.Diff(want, s.finish()); diff != "" {
		t.Errorf("the session printed (-want +got):\n%s", diff)
	}

	c.waitForVerdict("OK")
	var drained wire.Node
	c.call(http.MethodPost, "/v1/nodes/n-0/drain", struct{}{}, &drained)
	c.waitForVerdict(wire.AllCandidatesFullOrFailed)
	c.call(http.MethodPost, "/v1/nodes/n-0/resume", struct{}{}, &drained)

	c.instances[0].Kill()
	if err := c.instances[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	node.waitNthLine("registered as n-0", 2)
	c.dispatchToExistingNode("after")
}

// waitForVerdict waits until the first instance explains a request from en to es with a verdict.
func (c *testCluster) waitForVerdict(want wire.Code) {
	c.t.Helper()
	if err := clustertest.Eventually(c.t.Context(), waitTimeout, func() error {
		var e wire.ExplainResponse
		c.call(http.MethodPost, "/v1/dispatch/explain", wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}, &e)
		if e.Verdict != string(want) {
			return fmt.Errorf("explained: %+v", e)
		}
		return nil
	}); err != nil {
		c.t.Error(err)
	}
}

// dispatchToExistingNode dispatches a job and waits for its result.
func (c *testCluster) dispatchToExistingNode(request string) {
	c.t.Helper()
	var placed wire.DispatchResponse
	c.call(http.MethodPost, "/v1/dispatch/f2f", wire.DispatchRequest{RequestID: request, SessionID: "room-888", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}, &placed)
	if err := clustertest.Eventually(c.t.Context(), waitTimeout, func() error {
		var job wire.Job
		c.call(http.MethodGet, "/v1/jobs/"+placed.JobID, struct{}{}, &job)
		var result exampleResult
		if err := json.Unmarshal(job.Result, &result); err != nil || job.State != "DONE" || job.NodeID != "n-0" || result.TextTgt != "EN TO ES" {
			return fmt.Errorf("the job is %+v", job)
		}
		return nil
	}); err != nil {
		c.t.Error(err)
	}
}
