package deploy_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// TestAnInstanceThatWasStoppedSaysSo: by then the others took it for gone, and its own log must tell.
func TestAnInstanceThatWasStoppedSaysSo(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	p := start(t, "serve", []string{"LINGUA_STORE=" + redis.URL(), "LINGUA_SCHEDULER_PHASE2_HEARTBEAT_TTL_SECONDS=1"}, built(t), "serve", "--listen", "127.0.0.1:0")
	present := func() (bool, error) {
		found, err := redis.Do("KEYS", "lingua:schedulers:presence:*")
		list, _ := found.([]any)
		return len(list) == 1, err
	}
	until(t, "waiting for it to be present", p, func() error {
		if there, err := present(); err != nil || !there {
			return fmt.Errorf("it is not present: %w", err)
		}
		return nil
	})
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "waiting until it counts as gone", p, func() error {
		if there, err := present(); err != nil || there {
			return fmt.Errorf("it is present: %w", err)
		}
		return nil
	})
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, "waiting for it to say that it was away", p, func() error {
		if !strings.Contains(p.words(), "this instance was away") {
			return errors.New("it says nothing")
		}
		return nil
	})
	p.stop(t, 45*time.Second)
}
