package clustertest

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build builds cmd/lingua as dir/name, with the race detector if the test has it, and returns the path of the binary.
func Build(dir, name string, flags ...string) (string, error) {
	path := filepath.Join(dir, name)
	args := append([]string{"build", "-o", path}, flags...)
	if RaceEnabled {
		args = append(args, "-race")
	}
	args = append(args, "github.com/lingua-scheduler/lingua/cmd/lingua")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil { //nolint:noctx // it ends with the build
		return "", fmt.Errorf("build cmd/lingua: %w\n%s", err, out)
	}
	return path, nil
}
