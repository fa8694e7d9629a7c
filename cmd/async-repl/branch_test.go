package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/needtest"
)

func needsBranches(t *testing.T) {
	t.Helper()
	needtest.Linux(t, "branches")
}

// noteForks has the worker and its branches write the pid of what they fork to the file forks.
const noteForks = `import os, subprocess
def note():
    with open("forks", "a") as file: file.write("%d\n" % os.getpid())
os.register_at_fork(after_in_child=note)`

// A branch is among the processes that a server leaves to no one, however it ends.
func TestBranchesDoNotOutliveTheServer(t *testing.T) {
	needsBranches(t)
	if testing.Short() {
		t.Skip("makes ten branches")
	}
	for name, end := range map[string]func(s *started){
		"a plain end": (*started).stop,
		"SIGKILL":     func(s *started) { s.cmd.Process.Signal(syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.do("execute_python", "code", noteForks, "wait_seconds", 60)
			for range 5 {
				r := s.do("execute_python", "code", "1", "checkpoint", true, "wait_seconds", 60)
				if got := r.Header("Checkpoint"); got != "kept" {
					t.Fatalf("checkpoint: %s", got)
				}
			}
			// The status has a line for each place, not for the sessions there.
			if got := strings.Count(string(s.do("server_status")), "\nCheckpoint: session default after job "); carrier() == "" && got != 5 {
				t.Errorf("the status of the server lists %d checkpoints, want 5", got)
			}
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
					pids = append(pids, s.seen(pid))
				}
			}
			if len(pids) != 30 {
				t.Fatalf("%d processes, want 30", len(pids))
			}
			forks := strings.Fields(s.do("execute_python", "code", "print(open('forks').read())", "wait_seconds", 60).Section("STDOUT"))
			if len(forks) != 2*(5+10) { // the process between, too
				t.Fatalf("%d forks, want 30", len(forks))
			}
			for i, field := range forks {
				pid, err := strconv.Atoi(field)
				if err != nil {
					t.Fatal(err)
				}
				if i%2 == 1 {
					pid = s.seen(pid)
				} else if s.confined {
					continue // what has ended can't be found out
				}
				if err := syscall.Kill(pid, 0); i%2 == 1 && err != nil {
					t.Errorf("branch or checkpoint %d: %v", pid, err)
				}
				pids = append(pids, pid)
			}
			end(s)
			s.exit()
			gone(t, pids)
		})
	}
}
