//go:build !linux

package child

import "syscall"

// Elsewhere the kernel does not offer it: a test binary that is killed leaves its servers behind.
func dieWithParent() *syscall.SysProcAttr { return nil }

// Elsewhere the signal has to do.
func halted(int) bool { return true }
