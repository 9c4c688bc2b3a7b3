package drill

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// workshop is a directory that lasts as long as the test binary. TestMain makes and removes it.
var workshop string

// instanceID is how an instance is told its name.
const instanceID = "LINGUA_SCHEDULER_PHASE2_INSTANCE_ID"

// build makes the binary, once for all drills.
var build = sync.OnceValues(func() (string, error) { return compile("lingua") })

// compile makes the binary under a name, under the race detector if the drills are.
func compile(name string, flags ...string) (string, error) {
	path := filepath.Join(workshop, name)
	args := append([]string{"build", "-o", path}, flags...)
	if raced {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/lingua-scheduler/lingua/cmd/lingua")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("the binary cannot be built: %w\n%s", err, out)
	}
	return path, nil
}

// edit is a change of one file of the source.
type edit struct {
	file     string // from the root of the repository
	old, new string
}

// mutate makes a binary of a source that was changed. The source itself stays as it is.
func mutate(name string, edits ...edit) (string, error) {
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for n, e := range edits {
		path, err := filepath.Abs(filepath.Join("..", "..", e.file))
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if strings.Count(string(text), e.old) != 1 {
			return "", errors.New(e.file + " does not have, once: " + e.old)
		}
		instead := filepath.Join(workshop, fmt.Sprintf("%s.%d", name, n))
		if err := os.WriteFile(instead, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = instead
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(workshop, name+".json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return "", err
	}
	return compile(name, "-overlay", list)
}
