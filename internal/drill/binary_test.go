package drill

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// workshop is a directory that lasts as long as the test binary. TestMain makes and removes it.
var workshop string

// instanceID is how an instance is told its name, by binaries that know of others.
const instanceID = "LINGUA_SCHEDULER_PHASE2_INSTANCE_ID"

// ownerTTL is how long it is remembered, in seconds, who a node or a session was last connected to.
const ownerTTL = "LINGUA_SCHEDULER_PHASE2_OWNER_TTL_SECONDS"

// lingua is the scheduler's binary.
type lingua struct {
	path      string
	variables map[string]bool // that it can be configured with
}

// joins reports whether it knows of other instances.
func (l *lingua) joins() bool { return l.variables[instanceID] }

// build makes the binary, once for all drills, under the race detector if they are.
var build = sync.OnceValues(func() (*lingua, error) {
	l := &lingua{path: filepath.Join(workshop, "lingua"), variables: make(map[string]bool)}
	args := []string{"build", "-o", l.path}
	if raced {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/lingua-scheduler/lingua/cmd/lingua")...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the binary cannot be built: %w\n%s", err, out)
	}
	reference, err := exec.Command(l.path, "config", "reference").Output()
	if err != nil {
		return nil, fmt.Errorf("%s config reference: %w", l.path, err)
	}
	for line := range bytes.Lines(reference) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "# LINGUA_"); ok {
			l.variables["LINGUA_"+name] = true
		}
	}
	return l, nil
})
