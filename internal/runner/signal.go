//go:build unix

package runner

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalName returns the usual name of sig, such as SIGSEGV.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// ownFault reports whether sig is one that a program usually causes itself, such as SIGSEGV.
func ownFault(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGFPE, syscall.SIGILL, syscall.SIGBUS,
		syscall.SIGPIPE, syscall.SIGSYS, syscall.SIGTRAP, syscall.SIGXCPU, syscall.SIGXFSZ:
		return true
	}
	return false
}
