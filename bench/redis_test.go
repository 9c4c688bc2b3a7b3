package bench

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// A job over Redis may cost so many commands, and its caller and its node may wait for so many answers.
const (
	mostCommands = 18
	mostAnswers  = 4
)

// TestCommandsPerJob counts what the life of a job costs Redis: dispatch, ACK and result, without a session.
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
	dispatchOne("first") // Redis takes the scripts over with it
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
	if all > mostCommands*jobs {
		t.Errorf("a job costs %.2f commands, want at most %d", float64(all)/jobs, mostCommands)
	}
	// Whoever waits, waits for a script; the release is a command of its own that nobody waits for.
	if scripts := stats["evalsha"]; scripts > mostAnswers*jobs {
		t.Errorf("%.2f answers are waited for in the life of a job, want at most %d", float64(scripts)/jobs, mostAnswers)
	}
}
