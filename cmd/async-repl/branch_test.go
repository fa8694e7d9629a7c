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

// noteForks has the worker and its branches write the pid of what they fork to the file forks.
const noteForks = `import os, subprocess
def note():
    with open("forks", "a") as file: file.write("%d\n" % os.getpid())
os.register_at_fork(after_in_child=note)`

// A session continues from a checkpoint when its Python was restarted, or has died.
func TestCheckpoints(t *testing.T) {
	needsBranches(t)
	t.Parallel()
	s := startServer(t)
	result := func(code, want string) {
		t.Helper()
		r := s.do("execute_python", "code", code, "wait_seconds", 60)
		if got := strings.TrimSpace(r.Section("RESULT")); got != want {
			t.Errorf("%s: %s, want %s\n%s", code, got, want, r)
		}
	}
	job := s.do("execute_python", "code", "x = [1]", "checkpoint", true, "wait_seconds", 60).Header("Job ID")
	result("x.append(2); x", "[1, 2]")
	want := "yes; the variables are those of the checkpoint of job " + job
	for _, checkpoint := range []string{"latest", job} {
		if got := s.do("restart_python_worker", "checkpoint", checkpoint).Header("Restarted"); got != want {
			t.Errorf("restarted: %s, want %s", got, want)
		}
		result("x.append(3); x", "[1, 3]")
	}
	r := s.do("execute_python", "code", "x", "from_job", job, "wait_seconds", 60)
	if r.Header("Session") != "new, default-2" || strings.TrimSpace(r.Section("RESULT")) != "[1]" {
		t.Errorf("from the checkpoint:\n%s", r)
	}
	last := s.do("execute_python", "code", "x.append(4)", "wait_seconds", 60).Header("Job ID")
	r = s.do("execute_python", "code", "x", "from_job", last, "session", "live", "wait_seconds", 60)
	if r.Header("Session") != "new, live" || strings.TrimSpace(r.Section("RESULT")) != "[1, 3, 4]" {
		t.Errorf("from the last job:\n%s", r)
	}
	s.do("execute_python", "code", "import os; os.abort()", "wait_seconds", 60)
	s.do("restart_python_worker", "checkpoint", "latest")
	result("x", "[1]")
	if got := s.refused("restart_python_worker", "checkpoint", last); !strings.Contains(got, "no checkpoint of job "+last+"; there are those of "+job) {
		t.Errorf("an unknown checkpoint is refused with %q", got)
	}
	result("x", "[1]")
	if got, want := s.do("delete_session", "session", "default").Header("Note"), "checkpoints dropped: "+job; got != want {
		t.Errorf("the end of the session: %s, want %s", got, want)
	}
	if got := string(s.do("server_status")); strings.Contains(got, "Checkpoint:") {
		t.Errorf("a checkpoint outlived its session:\n%s", got)
	}
}

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
			if got := strings.Count(string(s.do("server_status")), "\nCheckpoint: session default after job "); got != 5 {
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
					pids = append(pids, pid)
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
