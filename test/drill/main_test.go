package drill

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestMain runs a driver if this process was started as one.
func TestMain(m *testing.M) {
	if isDriver, err := clustertest.RunDriver(); isDriver {
		if err != nil {
			fmt.Fprintln(os.Stderr, "driver:", err)
			os.Exit(1)
		}
		return
	}
	var err error
	if buildDir, err = os.MkdirTemp("", "drill"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.TopologyTimer), goleak.IgnoreAnyFunction(redistest.RemovedConnections), goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}
