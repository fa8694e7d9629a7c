//go:build linux

package procfs

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
)

// While another mount covers /proc, every reading fails and none says that a process is gone.
func TestCoveredProcIsNotGone(t *testing.T) {
	const covering = "PROCFS_TEST_COVERING"
	if os.Getenv(covering) == "" { // run this test again in a mount namespace of its own
		cmd := exec.Command(os.Args[0], "-test.run=^TestCoveredProcIsNotGone$", "-test.v")
		cmd.Env = append(os.Environ(), covering+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skip("only root can make a mount namespace")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	pid := os.Getpid()
	p := must.Get(Inspect(pid))(t).Process
	thread := must.Get(NewThreadClock(pid, pid))(t)
	must.Do(t, syscall.Mount("none", "/proc", "tmpfs", 0, ""))
	for name, ask := range map[string]func() error{
		"Inspect":       func() error { _, err := Inspect(pid); return err },
		"InspectThread": func() error { _, err := InspectThread(pid, pid); return err },
		"All":           func() error { _, err := All(); return err },
		"Children":      func() error { _, err := Children(pid, 0); return err },
		"Threads":       func() error { _, err := Threads(pid); return err },
		"Files":         func() error { _, err := Files(pid); return err },
		"LookupEnv":     func() error { _, _, err := LookupEnv(pid, "PATH"); return err },
		"DispositionOf": func() error { _, err := DispositionOf(pid, syscall.SIGINT); return err },
		"Signal":        func() error { return p.Signal(syscall.SIGCONT) },
		"ThreadClock":   func() error { _, err := thread.Ran(); return err },
	} {
		if err := ask(); err == nil || errors.Is(err, ErrGone) || !errors.Is(err, errNoProc) {
			t.Errorf("%s: %v, want %v", name, err, errNoProc)
		}
	}
}
