package redistest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestServersEndWithKilledTestBinary kills a test binary that runs a server, as a timeout of `go test` does.
func TestServersEndWithKilledTestBinary(t *testing.T) {
	t.Parallel()
	binary := exec.Command(os.Args[0], "-test.run", "^TestHelperProcess$")
	binary.Env = append(os.Environ(), "REDISTEST_KILLED=1", "TMPDIR="+t.TempDir())
	out, err := binary.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := binary.StdinPipe(); err != nil { // the helper process runs until this is closed
		t.Fatal(err)
	}
	if err := binary.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		fmt.Sscanf(lines.Text(), "server %d", &pid)
	}
	binary.Process.Kill()
	binary.Wait()
	if pid == 0 {
		t.Fatal("the other test binary started no server")
	}
	eventually(t, startTimeout, func() error {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(line), "redis-server") {
			return fmt.Errorf("%s still runs as %d", line, pid)
		}
		return nil
	})
}

// TestHelperProcess is the test that the killed binary runs.
func TestHelperProcess(t *testing.T) {
	if os.Getenv("REDISTEST_KILLED") == "" {
		return
	}
	fmt.Printf("server %d\n", Start(t).proc.Pid)
	io.Copy(io.Discard, os.Stdin)
}
