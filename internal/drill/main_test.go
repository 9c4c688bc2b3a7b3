package drill

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also where a driver begins: it is a process of this binary.
func TestMain(m *testing.M) {
	if role := os.Getenv(driverRole); role != "" {
		if err := drive(role); err != nil {
			fmt.Fprintln(os.Stderr, "driver:", err)
			os.Exit(1)
		}
		return
	}
	var err error
	if workshop, err = os.MkdirTemp("", "drill"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(workshop)
		os.Exit(code)
	}))
}
