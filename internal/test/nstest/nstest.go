//go:build linux

// Package nstest runs programs of a test in namespaces of their own.
package nstest

import (
	"os"
	"os/exec"
	"syscall"
)

// Isolate has a command start as root of a new user namespace, in which it can mount, and in the other new
// namespaces that flags name. Starting it fails with EPERM if the system lets no program make namespaces.
func Isolate(cmd *exec.Cmd, flags uintptr) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | flags
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
}
