//go:build !linux

package child

import "syscall"

// Other kernels cannot kill a child with its parent: a test binary that is killed leaves its servers behind.
func killWithParent() *syscall.SysProcAttr { return nil }

// Other kernels do not show the state of a process under /proc, so a sent signal counts as delivered.
func stopped(int) bool { return true }
