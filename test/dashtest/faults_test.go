package dashtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// runProgram runs a program with the browser, and fails the test as the program does.
func (c *testCluster) runProgram(file, url string) {
	c.t.Helper()
	control := httptest.NewServer(c.faults())
	defer control.Close()
	printed := RunProgram(c.t, file, Arguments{
		URL: url, Control: control.URL + "/", Keys: keys, Pictures: c.t.ArtifactDir(), Said: []string{"the same in ", "0.3 seconds of "},
	})
	c.t.Logf("%s", printed)
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
