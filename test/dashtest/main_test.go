package dashtest

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// buildDir is a directory for the binary. TestMain creates and removes it.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "dashtest"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

// buildOnce builds the scheduler, once for all tests.
var buildOnce = sync.OnceValues(func() (string, error) { return clustertest.Build(buildDir, "lingua") })
