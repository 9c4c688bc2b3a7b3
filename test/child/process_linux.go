package child

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

func killWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// stopped reports whether the kernel has stopped a process.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") ")) // after the name, which is in parentheses
	return len(state) > 0 && state[0] == 'T'
}
