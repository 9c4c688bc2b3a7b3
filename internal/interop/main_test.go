package interop

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// binaryDir lasts as long as the test binary.
var binaryDir string

func TestMain(m *testing.M) {
	flag.Parse()
	if !given("test.parallel") {
		// The cases wait for timers of the protocol, not for the processor: more of them than there are cores fit.
		_ = flag.Set("test.parallel", "24")
	}
	var err error
	if binaryDir, err = os.MkdirTemp("", "interop"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(binaryDir)
		os.Exit(code)
	}))
}

func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// lingua builds the binary, once for all cases.
var lingua = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir, "lingua")
	args := []string{"build", "-o", path}
	if raced {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/lingua-scheduler/lingua/cmd/lingua")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build lingua: %w\n%s", err, out)
	}
	return path, nil
})
