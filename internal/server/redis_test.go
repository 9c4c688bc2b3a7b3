package server_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// TestEverythingOverRedis runs every other test of this package once more, with schedulers that keep their truth in
// Redis: whoever uses the API must not be able to tell. It does not run beside the others: with twice as many schedulers on
// a busy machine Redis gets too little of the processor to answer in time.
func TestEverythingOverRedis(t *testing.T) {
	if *redisURL != "" {
		return // this is that run
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-redis", redistest.Start(t).URL(), "-test.timeout=5m")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
