package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// instance is the process of an instance, as the benchmark sees it.
type instance struct {
	*clustertest.Helper
	url    string
	killed bool // on purpose
}

// startInstances starts instances with one Redis, which stop at the end of the test. The environment is added to theirs.
func startInstances(tb testing.TB, redis string, count int, environment ...string) []*instance {
	tb.Helper()
	all := make([]*instance, count)
	for n := range all {
		all[n] = new(instance)
		h, err := clustertest.StartHelper(os.Stderr, slices.Concat(environment, []string{instanceVariable + "=" + redis})...)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if all[n].killed {
				return
			}
			h.CloseInput()
			if err := h.WaitExit(clustertest.StartTimeout); err != nil {
				tb.Errorf("an instance: %v", err)
				h.KillAndWait()
			}
		})
		all[n].Helper = h
	}
	for _, i := range all {
		url, err := i.ReadLine()
		if err != nil {
			tb.Fatal("an instance did not start: ", err)
		}
		i.url = url
	}
	return all
}

// api returns a client of the API of the instance.
func (i *instance) api() *lab.API { return &lab.API{URL: i.url, HTTP: http.DefaultClient} }

// send sends a command to the instance and waits for its report. It can be called from any goroutine, but for each instance
// by one at a time.
func (i *instance) send(c command) (report, error) {
	var r report
	text, err := json.Marshal(c)
	if err != nil {
		return r, err
	}
	if err := i.WriteLine(text); err != nil {
		return r, err
	}
	line, err := i.ReadLine()
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, err
	}
	if r.Err != "" {
		return r, fmt.Errorf("an instance reports: %s", r.Err)
	}
	return r, nil
}

// waitNodes returns when every instance knows a number of nodes.
func waitNodes(tb testing.TB, all []*instance, want int) {
	tb.Helper()
	for _, i := range all {
		eventually(tb, func() error {
			if r, err := i.send(command{}); err != nil || r.Nodes < want {
				return fmt.Errorf("%d of %d nodes are known at %s: %w", r.Nodes, want, i.url, err)
			}
			return nil
		})
	}
}

// eventually fails the test if check still returns an error after 20 s.
func eventually(tb testing.TB, check func() error) {
	tb.Helper()
	if err := clustertest.Eventually(tb.Context(), 20*time.Second, check); err != nil {
		tb.Fatal(err)
	}
}
