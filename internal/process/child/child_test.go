//go:build linux

package child

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"
)

func start(t *testing.T, script string) *Child {
	t.Helper()
	return must.Get(Start("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true}}))(t)
}

// A child that has ended is a zombie that keeps its pid until it is reaped. After that no signal is
// sent.
func TestEndAndReapAreTwoSteps(t *testing.T) {
	c := start(t, "exec sleep 1000")
	if c.Ended() {
		t.Error("it has ended before it was killed")
	}
	if err := c.SignalGroup(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	c.AwaitEnd()
	if s, err := procfs.Inspect(c.Self().PID); err != nil || s.State != 'Z' || s.Start != c.Self().Start || !c.Ended() {
		t.Errorf("got %+v, %v, want a zombie", s, err)
	}
	if status := c.Reap(); status.Signal() != syscall.SIGKILL {
		t.Errorf("status %v, want SIGKILL", status)
	}
	for _, signal := range []func(syscall.Signal) error{c.Signal, c.SignalGroup} {
		if err := signal(syscall.SIGTERM); !errors.Is(err, procfs.ErrGone) {
			t.Errorf("signal after the end: %v, want %v", err, procfs.ErrGone)
		}
	}
}

// On a kernel without pidfds a thread does the waiting, with the same result.
func TestWaitWithoutPidfd(t *testing.T) {
	c := start(t, "exit 5")
	c.end.close()
	c.end = newWaiter(-1)
	c.AwaitEnd()
	if got := c.Reap().ExitStatus(); got != 5 {
		t.Errorf("exit %d, want 5", got)
	}
}
