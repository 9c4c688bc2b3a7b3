package interop

import (
	"flag"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/clustertest"
)

// buildDir is a directory for the binary. TestMain creates and removes it.
var buildDir string

func TestMain(m *testing.M) {
	flag.Parse()
	if !isFlagSet("test.parallel") {
		// The cases wait for timers of the protocol, not for the processor: more of them than there are cores fit.
		_ = flag.Set("test.parallel", "24")
	}
	var err error
	if buildDir, err = os.MkdirTemp("", "interop"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

func isFlagSet(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// buildOnce builds the scheduler, once for all cases.
var buildOnce = sync.OnceValues(func() (string, error) { return clustertest.Build(buildDir, "lingua") })
