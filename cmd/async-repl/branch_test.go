package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func needsBranches(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("branches need Linux")
	}
}

// Two branches of one state continue on their own, and what they share is said.
func TestBranchesOfOneState(t *testing.T) {
	needsBranches(t)
	t.Parallel()
	s := startServer(t)
	s.do("execute_python", "code", "import subprocess\nstate = [0]\nkid = subprocess.Popen(['sleep', '300'])", "wait_seconds", 60)
	for _, name := range []string{"left", "right"} {
		r := s.do("create_session", "name", name, "from_session", "default")
		if r.Header("Session") != "new" || !strings.Contains(string(r), "branch of default") || !strings.Contains(string(r), "Shared with default") || !strings.Contains(string(r), "(sleep)") {
			t.Errorf("the reply about the branch:\n%s", r)
		}
	}
	for _, name := range []string{"left", "right", "default"} {
		r := s.do("execute_python", "session", name, "code", fmt.Sprintf("state.append(%q); state", name), "wait_seconds", 60)
		if got, want := strings.TrimSpace(r.Section("RESULT")), fmt.Sprintf("[0, '%s']", name); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	r := s.do("execute_python", "session", "left", "code", "kid.wait()", "wait_seconds", 60)
	if got := r.Header("Status"); !strings.Contains(got, "belongs to session default") {
		t.Errorf("the wait for a child of the parent: %s", got)
	}
	s.do("delete_session", "session", "left")
	s.do("restart_python_worker")
	r = s.do("execute_python", "session", "right", "code", "state", "wait_seconds", 60)
	if got := strings.TrimSpace(r.Section("RESULT")); got != "[0, 'right']" {
		t.Errorf("after the ends of parent and sibling: %s", r)
	}
}

// A branch is among the processes that a server leaves to no one, however it ends.
func TestBranchesDoNotOutliveTheServer(t *testing.T) {
	needsBranches(t)
	if testing.Short() {
		t.Skip("makes ten branches")
	}
	for name, end := range map[string]func(s *server){
		"end of input": func(s *server) { s.stdin.Close() },
		"SIGKILL":      func(s *server) { s.cmd.Process.Signal(syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.do("execute_python", "code", "import os, subprocess", "wait_seconds", 60)
			var pids []int
			for i := range 10 {
				name := "b" + strconv.Itoa(i)
				s.do("create_session", "name", name, "from_session", "default")
				r := s.do("execute_python", "session", name, "wait_seconds", 60,
					"code", "print(os.getpid(), subprocess.Popen(['setsid', 'sleep', '300']).pid, subprocess.Popen(['env', '-i', 'sleep', '300']).pid)")
				for _, field := range strings.Fields(r.Section("STDOUT")) {
					pid, err := strconv.Atoi(field)
					if err != nil {
						t.Fatal(err)
					}
					pids = append(pids, pid)
				}
			}
			if len(pids) != 30 {
				t.Fatalf("%d processes, want 30", len(pids))
			}
			end(s)
			s.exit()
			gone(t, pids)
		})
	}
}
