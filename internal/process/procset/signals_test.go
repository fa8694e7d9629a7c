//go:build linux

package procset_test

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/procset"
	"asyncrepl/internal/test/must"
)

// start starts a shell that leads its own group and waits until it has printed a line. It can be
// hung up, although nohup has this process and its children ignore SIGHUP: an exec sets the signals
// that are caught to their default.
func start(t *testing.T, script string) (*exec.Cmd, procfs.Stat) {
	t.Helper()
	caught := make(chan os.Signal, 1) // nobody reads it
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	c := exec.Command("sh", "-c", script)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := must.Get(c.StdoutPipe())(t)
	must.Do(t, c.Start())
	t.Cleanup(func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	s := must.Get(procfs.Inspect(c.Process.Pid))(t)
	return c, s
}

// signalOf returns the signal that ended c.
func signalOf(c *exec.Cmd) syscall.Signal {
	c.Wait() // an error: a signal ended it
	return c.ProcessState.Sys().(syscall.WaitStatus).Signal()
}

func TestTerminateHangsUpWhatIgnoresSIGTERM(t *testing.T) {
	for script, want := range map[string]syscall.Signal{
		"echo up; while :; do sleep 1000; done":               syscall.SIGTERM,
		"trap '' TERM; echo up; while :; do sleep 1000; done": syscall.SIGHUP,
	} {
		c, s := start(t, script)
		procset.Terminate([]procfs.Stat{s})
		if got := signalOf(c); got != want {
			t.Errorf("%q ended by %v, want %v", script, got, want)
		}
	}
}

func TestRemindReachesOnlyWhatIgnoresSIGTERM(t *testing.T) {
	deaf, s := start(t, "trap '' TERM; echo up; while :; do sleep 1000; done")
	other, o := start(t, "echo up; while :; do sleep 1000; done")
	r := procset.NewReminder()
	<-r.Due()
	r.Remind([]procfs.Stat{s, o})
	if got := signalOf(deaf); got != syscall.SIGHUP {
		t.Errorf("ended by %v, want SIGHUP", got)
	}
	procset.SendGroups([]procfs.Stat{o}, syscall.SIGKILL)
	if got := signalOf(other); got != syscall.SIGKILL {
		t.Errorf("the other ended by %v, want SIGKILL", got)
	}
}

// A process that was counted as alive without having been inspected gets no signal: its group is
// not known.
func TestUninspectedProcessesAreLeftOut(t *testing.T) {
	c, s := start(t, "echo up; while :; do sleep 1000; done")
	unknown := s
	unknown.State = 0
	procset.SendGroups([]procfs.Stat{unknown}, syscall.SIGTERM)
	if d, err := s.Disposition(syscall.SIGTERM); err != nil || d.Pending {
		t.Errorf("got %+v, %v", d, err)
	}
	procset.SendGroups([]procfs.Stat{s}, syscall.SIGKILL)
	if got := signalOf(c); got != syscall.SIGKILL {
		t.Errorf("ended by %v, want SIGKILL", got)
	}
}
