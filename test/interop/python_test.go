package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/test/child"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/docpage"
	"github.com/lingua-scheduler/lingua/wire"
)

// The node in Python of docs/http-nodes.md, as it is printed there, does jobs, also after a restart of the scheduler.
func TestPythonNodeOfTheDocs(t *testing.T) {
	t.Parallel()
	i := clustertest.NewInstance(t, "python", scheduler(t), filepath.Join(t.TempDir(), "instance.log"))
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	startPythonNode(t, i)
	dispatchToPython(t, i, "before")
	i.Kill()
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	dispatchToPython(t, i, "after")
}

// startPythonNode runs the program of the page, with the addresses of this test, until the test ends.
func startPythonNode(t *testing.T, i *clustertest.Instance) {
	t.Helper()
	pages, err := docpage.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	program := ""
	for _, page := range pages {
		for _, b := range page.Blocks() {
			if b.Language() == "python" {
				program += b.Body
			}
		}
	}
	port := strconv.Itoa(child.Port(t))
	for old, replacement := range map[string]string{`"127.0.0.1:5010"`: strconv.Quote(i.Addr()), `"python-node", 9000`: `"python-node", ` + port} {
		if strings.Count(program, old) != 1 {
			t.Fatalf("%s is in the program of docs/http-nodes.md %d times", old, strings.Count(program, old))
		}
		program = strings.Replace(program, old, replacement, 1)
	}
	file := filepath.Join(t.TempDir(), "node.py")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command("python3", "-u", file)
	cmd.Stdout, cmd.Stderr = &output, &output
	node, err := clustertest.StartProcess(cmd)
	if err != nil {
		t.Fatalf("start python3, which must be version 3.9 or newer: %v", err)
	}
	t.Cleanup(func() {
		alive := node.Alive()
		node.KillAndWait()
		if !alive || strings.Contains(output.String(), "Traceback") {
			t.Errorf("the node failed")
		}
		if t.Failed() {
			t.Logf("the node printed:\n%s", output.String())
		}
	})
}

// dispatchToPython dispatches a job as soon as a node takes it, and waits for its result.
func dispatchToPython(t *testing.T, i *clustertest.Instance, request string) {
	t.Helper()
	in := wire.DispatchRequest{RequestID: request, SessionID: "room-888", SrcLang: "en", TgtLang: "zh"}
	var placed wire.DispatchResponse
	if err := clustertest.Eventually(t.Context(), waitTimeout, func() error {
		return i.API.Post(t.Context(), "/v1/dispatch/f2f", in, &placed)
	}); err != nil {
		t.Fatal(err)
	}
	if err := clustertest.Eventually(t.Context(), waitTimeout, func() error {
		var job struct {
			State  string `json:"state"`
			NodeID string `json:"node_id"`
			Result struct {
				Text string `json:"text_tgt"`
			} `json:"result"`
		}
		if err := i.Read(t.Context(), "/v1/jobs/"+placed.JobID, &job); err != nil {
			return err
		}
		if job.State != "DONE" || job.NodeID != "python-node" || job.Result.Text != "你好" {
			return fmt.Errorf("the job is %+v", job)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
