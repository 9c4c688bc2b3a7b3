package drill

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/clustertest"
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
	// A cluster client that was just closed may still read the topology, for a second.
	topology := goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")
	goleak.VerifyTestMain(m, topology, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}
