package dashtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/clustertest"
)

// programs is the directory of the programs that use the browser.
const programs = "../../web/dashboard"

// programTimeout is how long a program may take, on a busy machine.
const programTimeout = 8 * time.Minute

// arguments is what a program is given.
type arguments struct {
	URL      string            `json:"url"`
	Control  string            `json:"control"`
	Keys     map[string]string `json:"keys"`
	Chromium string            `json:"chromium"`
	Pictures string            `json:"pictures"`
	Said     []string          `json:"said"` // what the nodes of the demo say that people said
}

// runProgram runs a program with the browser, and fails the test as the program does.
func (c *testCluster) runProgram(file, url string) {
	c.t.Helper()
	control := httptest.NewServer(c.faults())
	defer control.Close()
	pictures := c.t.ArtifactDir()
	given, err := json.Marshal(arguments{
		URL: url, Control: control.URL + "/", Keys: keys, Chromium: chromium(c.t), Pictures: pictures, Said: []string{"the same in ", "0.3 seconds of "},
	})
	c.must(err)
	out, err := os.Create(filepath.Join(pictures, strings.TrimSuffix(file, ".mjs")+".log"))
	c.must(err)
	defer func() { _ = out.Close() }()
	cmd := exec.Command("node", "browser/"+file, string(given))
	cmd.Dir, cmd.Stdout, cmd.Stderr = programs, out, out
	p, err := clustertest.StartProcess(cmd)
	c.must(err)
	defer p.KillAndWait()
	err = p.WaitExit(programTimeout)
	printed, readErr := os.ReadFile(out.Name())
	c.must(readErr)
	c.t.Logf("%s", printed)
	if err != nil {
		c.t.Errorf("%s: %v", file, err)
	}
}

// chromium returns the path of the browser.
func chromium(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(programs, "node_modules", "puppeteer-core")); err != nil {
		t.Fatalf("the dependencies of the dashboard are not installed; install them with: make dashboard-tools (%v)", err)
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not on PATH: make dashboard-tools installs it")
	}
	return path
}

// faults lets a program do something to the cluster. Its requests come one at a time.
func (c *testCluster) faults() http.Handler {
	mux := http.NewServeMux()
	on := func(action string, do func(instance string) error) {
		mux.HandleFunc("POST /"+action, func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				Instance string `json:"instance"`
			}
			err := json.NewDecoder(r.Body).Decode(&in)
			if err == nil {
				err = do(in.Instance)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	on("kill-instance", func(name string) error {
		c.instance(name).Kill()
		return nil
	})
	on("start-instance", func(name string) error { return c.instance(name).Start(c.t.Context()) })
	on("stop-instances", func(string) error {
		for _, i := range c.instances {
			if err := i.Terminate(clustertest.StartTimeout); err != nil {
				return err
			}
		}
		return nil
	})
	on("start-instances", func(string) error {
		for _, i := range c.instances {
			if err := i.Start(c.t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	on("stop-redis", func(string) error {
		c.redis.Stop()
		return nil
	})
	on("start-redis", func(string) error {
		c.redis.Continue()
		return nil
	})
	on("hold-jobs", func(string) error { return c.holdJobs() })
	on("dead-letters", func(string) error { return c.makeDeadLetters() })
	return mux
}
