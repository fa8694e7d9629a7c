//go:build unix

package runner

import (
	"syscall"
	"testing"
)

func TestSignalNamesAndFaults(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{syscall.SIGSEGV: "SIGSEGV", syscall.SIGKILL: "SIGKILL", 40: "signal 40"} {
		if got := SignalName(sig); got != want {
			t.Errorf("%d: got %s, want %s", sig, got, want)
		}
	}
	if !ownFault(syscall.SIGABRT) || ownFault(syscall.SIGKILL) || ownFault(syscall.SIGTERM) {
		t.Error("an abort is the program's own fault, a kill and a termination are not")
	}
}
