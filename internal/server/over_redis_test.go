//go:build !race

// The race detector finds races of the API in the other tests; those of the store over Redis have their own.

package server_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// TestAllOverRedis runs all other tests of this package again with schedulers on Redis: the store must make no difference to the
// API. It does not run in parallel with them: on a busy machine Redis would not answer in time. Tests that repeat one call many times do it
// less often.
func TestAllOverRedis(t *testing.T) {
	if *redisURL != "" {
		return // the run over Redis itself
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-redis", redistest.Start(t).URL(), "-forgeries=500", "-hostile=2000", "-test.timeout=10m")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
