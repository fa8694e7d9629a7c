package pyrepl_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A worker that dies with a command unread has not begun with the job: the job runs on the next
// worker. One that has read the command may have, whatever it said: the job is lost, and not run
// twice. It is not parallel: it counts the unread bytes of all channels.
func TestUnreadCommandsRunOnTheNextWorker(t *testing.T) {
	inFull(t)
	b := newBench(t)
	if runtime.GOOS == "linux" { // elsewhere the kernel does not say what was read
		first, _ := b.run("x = 1")
		if first.Status != jobs.Completed { // it has no worker, and pid 0 is our own group
			t.Fatal(first.Receipt.Text())
		}
		syscall.Kill(first.PID, syscall.SIGSTOP)
		j := b.start("'x' in globals()")
		polltest.Until(t, "the command to be sent", func() bool { return unreadBytes(t) > 0 })
		syscall.Kill(first.PID, syscall.SIGKILL)
		record := jobstest.End(t, j)
		notes := strings.Join(record.Receipt.Notes, "; ")
		if record.Result != "False" || !strings.Contains(notes, "was killed by SIGKILL between jobs; variables lost") {
			t.Errorf("result %q, %s, notes %q", record.Result, record.Receipt.Text(), notes)
		}
		b.history("x = 1: completed\n! Python was killed by SIGKILL between jobs; variables lost: x\n'x' in globals(): completed\n")
	}
	log := filepath.Join(t.TempDir(), "log")
	b.want("import os; open('"+log+"', 'a').write('x'); os.kill(os.getpid(), 9)", "failed (killed by SIGKILL; variables lost)")
	if text, err := os.ReadFile(log); string(text) != "x" {
		t.Errorf("the job ran %d times; %v", len(text), err)
	}
}

// unreadBytes returns how much of what this process sent over its sockets the other ends have not
// read.
func unreadBytes(t *testing.T) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fds {
		fd, _ := strconv.Atoi(e.Name())
		if target, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(target, "socket:") {
			unread, _ := unix.IoctlGetInt(fd, unix.TIOCOUTQ) // an error: it has just been closed
			n += unread
		}
	}
	return n
}
