package deploy_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestSuspendedInstanceLogsItsAbsence checks that an instance which was suspended for so long that it counted as dead logs
// it.
func TestSuspendedInstanceLogsItsAbsence(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	p := startProcess(t, "serve", []string{"LINGUA_STORE=" + redis.URL(), "LINGUA_SCHEDULER_PHASE2_HEARTBEAT_TTL_SECONDS=1"}, built(t), "serve", "--listen", "127.0.0.1:0")
	present := func() (bool, error) {
		found, err := redis.Do("KEYS", "lingua:schedulers:presence:*")
		list, _ := found.([]any)
		return len(list) == 1, err
	}
	waitUntil(t, "waiting for it to be present", p, func() error {
		if there, err := present(); err != nil || !there {
			return fmt.Errorf("it is not present: %w", err)
		}
		return nil
	})
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "waiting until it counts as dead", p, func() error {
		if there, err := present(); err != nil || there {
			return fmt.Errorf("it is still present: %w", err)
		}
		return nil
	})
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "waiting for the log of its absence", p, func() error {
		if !strings.Contains(p.outputText(), "this instance was away") {
			return errors.New("it logs nothing")
		}
		return nil
	})
	p.stop(t, 45*time.Second)
}
