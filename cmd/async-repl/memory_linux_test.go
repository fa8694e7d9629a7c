package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// delegated makes an empty control group of version 2 with the memory controller, below that of the
// test, as systemd delegates one. It skips the test if that can't be done.
func delegated(t *testing.T) string {
	t.Helper()
	_, name, ok := strings.Cut("\n"+string(must.Get(os.ReadFile("/proc/self/cgroup"))(t)), "\n0::")
	if !ok {
		t.Skip("no control groups of version 2")
	}
	here := filepath.Join("/sys/fs/cgroup", strings.TrimSpace(name))
	os.WriteFile(filepath.Join(here, "cgroup.subtree_control"), []byte("+memory"), 0) // an error: the next group has no limit
	dir, err := os.MkdirTemp(here, "async-repl-test-")
	needtest.Unless(t, "the control group of the test can't be written", err, fs.ErrPermission, syscall.EROFS, fs.ErrNotExist)
	t.Cleanup(func() { // also shows that no group is left in it
		polltest.Check(t, func() error { return os.Remove(dir) })
	})
	_, err = os.Stat(filepath.Join(dir, "memory.max"))
	needtest.Unless(t, "the groups below that of the test have no memory controller", err, fs.ErrNotExist)
	return dir
}

// In a control group of its own, the server limits the memory of all processes of a session
// together. Of what reaches the limit the kernel kills the largest, and Python keeps its variables
// if it is not that.
func TestMemoryOfAllProcessesOfASession(t *testing.T) {
	if testing.Short() {
		t.Skip("fills memory")
	}
	dir := delegated(t)
	s := oddServer(t, script(fmt.Sprintf("echo $$ > %s/cgroup.procs", dir)), "REPL_MEMORY_MB=100")
	python := func(session, code string, headers ...string) string {
		t.Helper()
		r := s.do("execute_python", "code", code, "session", session, "wait_seconds", 60)
		holds(t, r, headers...)
		return string(r)
	}
	const (
		fill   = "b = bytearray(b'x') * (%d << 20)"
		child  = "import subprocess, sys; subprocess.run([sys.executable, '-c', \"" + fill + "\"], check=%s)"
		shared = "import mmap\nm = mmap.mmap(-1, 200 << 20)\nfor i in range(0, 200 << 20, 4096): m[i] = 1"
		killed = "the kernel killed 1 process of the session (out of memory: limit of 100 MB)"
	)
	python("default", "x = 1; "+fmt.Sprintf(fill, 20), "Status", "completed")
	python("default", "big = bytearray(200 << 20)", "Status", "failed (out of memory: limit of 100 MB; variables kept)")
	r := python("default", fmt.Sprintf(child, 90, "True"), "Note", killed)
	if want := "failed (out of memory: limit of 100 MB: subprocess.CalledProcessError: "; !strings.Contains(r, want) {
		t.Errorf("no %q in:\n%s", want, r)
	}
	python("default", fmt.Sprintf(child, 90, "False"), "Status", "completed", "Note", killed)
	python("default", "x", "Status", "completed", "Note", "")
	if status := s.do("server_status"); !strings.Contains(string(status), "a memory limit of 100 MB for all processes of a session together (cgroup v2)") {
		t.Errorf("server_status says\n%s", status)
	}

	s.do("create_session", "name", "branch", "from_session", "default")
	python("branch", fmt.Sprintf(child, 80, "True"), "Status", "completed") // what it shares with its parent counts there
	python("branch", shared, "Status", "failed (out of memory: limit of 100 MB; variables lost)", "Ended by", "limit")
	python("default", "x", "Status", "completed")
	if list := string(s.do("list_sessions")); strings.Count(list, "at most 100 MB\n")+strings.Count(list, "at most 100 MB,") != 2 {
		t.Errorf("list_sessions says\n%s", list)
	}
	python("default", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
		"Status", "failed (killed by SIGKILL; variables lost)", "Ended by", "outside or unknown")
	python("default", "y = 1", "Status", "completed")

	s.signal(syscall.SIGKILL)
	polltest.Check(t, func() error { // by the guard
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if strings.TrimSpace(string(b)) != "" {
			return errors.New("the memory controller is still enabled")
		}
		return err
	})
}

// If the server can't limit all processes of a session together, it says why.
func TestMemoryOfEachProcessSaysWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server in a mount namespace of its own")
	}
	notApart(t, "no control group is used there, which is another reason")
	s := oddServer(t, private("umount -R /sys/fs/cgroup"), "REPL_MEMORY_MB=100")
	status := s.do("server_status")
	for _, want := range []string{"a memory limit of 100 MB for each process of a session, not for all together", "cgroup v2 can't limit all processes of a session together: "} {
		if !strings.Contains(string(status), want) {
			t.Errorf("server_status does not say %q:\n%s", want, status)
		}
	}
	r := s.do("execute_python", "code", "bytearray(200 << 20)", "wait_seconds", 60)
	holds(t, r, "Status", "failed (out of memory: limit of 100 MB; variables kept)")
}
