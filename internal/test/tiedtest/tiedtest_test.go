//go:build linux

package tiedtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/tiedtest"
)

// A program outlives the thread whose goroutine has asked for it, and ends with the test binary.
func TestProgramEndsWithTheBinaryAlone(t *testing.T) {
	if name := os.Getenv("TIED"); name != "" { // the binary that is killed
		cmd := exec.Command("sleep", "1000")
		must.Do(t, tiedtest.Start(cmd, syscall.SIGKILL))
		must.Do(t, os.WriteFile(name, fmt.Append(nil, cmd.Process.Pid), 0o600))
		must.Do(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	cmd := exec.Command("cat")
	in := must.Get(cmd.StdinPipe())(t)
	thread := make(chan int)
	for { // the thread ends with the goroutine, unless it is the first of the program
		go func() {
			runtime.LockOSThread()
			if syscall.Gettid() != os.Getpid() {
				if err := tiedtest.Start(cmd, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
			thread <- syscall.Gettid()
		}()
		tid := <-thread
		if tid == os.Getpid() {
			continue
		}
		task := fmt.Sprintf("/proc/self/task/%d", tid)
		polltest.Until(t, "the end of the thread", func() bool { _, err := os.Stat(task); return err != nil })
		break
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it has ended with the thread: %v", err)
	}

	name := t.TempDir() + "/pid"
	self := exec.Command(must.Get(os.Executable())(t), "-test.run=^"+t.Name()+"$")
	self.Env = append(os.Environ(), "TIED="+name)
	self.Run() // an error: it kills itself
	var pid int
	must.Get(fmt.Sscan(string(must.Get(os.ReadFile(name))(t)), &pid))(t)
	polltest.Until(t, "the end of the program", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || len(text) == 0 // a zombie has none
	})
}
