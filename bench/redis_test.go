package bench

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// The maximum number of Redis commands of a job, and of scripts that its caller or its node waits for.
const (
	maxCommands = 18
	maxScripts  = 4
)

// TestCommandsPerJob counts the Redis commands of a job without a session: dispatch, ACK and result.
func TestCommandsPerJob(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	server := redistest.Start(t)
	s, _ := inprocess.Start(t, 50, 4, true, func(c *config.Config) { c.Store = server.URL() })
	dispatchOne := func(id string) {
		_, err := s.Jobs.Dispatch(t.Context(), dispatch.Request{Unique: true, Spec: core.Spec{
			Request: core.RequestID(id), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	dispatchOne("first") // loads the scripts
	server.ResetStats()
	for range jobs {
		dispatchOne(uuid.NewString())
	}
	stats := server.CommandStats()
	delete(stats, "config|resetstat")
	delete(stats, "info")
	var all int64
	report := ""
	for name, n := range stats {
		all += n
		report += fmt.Sprintf(" %s %.2f", name, float64(n)/jobs)
	}
	t.Logf("%.2f commands a job:%s", float64(all)/jobs, report)
	if all > maxCommands*jobs+jobs/20 { // a few are of the instance and not of a job
		t.Errorf("a job costs %.2f commands, want at most %d", float64(all)/jobs, maxCommands)
	}
	// Callers and nodes wait for scripts; the release of a slot is a separate command that no caller waits for.
	if scripts := stats["evalsha"]; scripts > maxScripts*jobs {
		t.Errorf("a job waits for %.2f scripts, want at most %d", float64(scripts)/jobs, maxScripts)
	}
}
