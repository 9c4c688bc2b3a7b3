package interop

import (
	"flag"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// buildDir is a directory for the binary. TestMain creates and removes it.
var buildDir string

func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() != "1" {
		// The cases wait for timers of the protocol, and hardly use a processor: more of them fit than of the tests of other packages.
		_ = parallel.Value.Set("24")
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

// buildScheduler builds the scheduler, once for all cases.
var buildScheduler = sync.OnceValues(func() (string, error) { return clustertest.Build(buildDir, "lingua") })

// scheduler returns the path of the scheduler. Short tests run none.
func scheduler(t *testing.T) string {
	t.Helper()
	skipShort(t)
	binary, err := buildScheduler()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// skipShort skips a short test that would run programs.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs programs in other languages")
	}
}
