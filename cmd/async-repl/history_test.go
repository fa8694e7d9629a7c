//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// restart starts another server in the workspace and with the state directory of s, which has ended.
func (s *started) restart(state string, env ...string) *started {
	s.t.Helper()
	again := prepare(s.t, append([]string{"REPL_PYTHON=" + realPython(), "REPL_STATE_DIR=" + state}, env...)...)
	again.dir, again.cmd.Dir = s.dir, s.dir
	again.open()
	return again
}

// kill kills the server, and waits until it and its guard have ended.
func (s *started) kill() {
	s.t.Helper()
	s.cmd.Process.Kill()
	s.cmd.Wait() // an error: it was killed
}

// What ran before the last start of a server can be read through every tool that reads.
func TestPastJobs(t *testing.T) {
	overStdio(t, "the end of a server is the same")
	state := newState(t)
	first := startServer(t, "REPL_STATE_DIR="+state)
	quick := first.do("execute_command_async", "wait_seconds", 60, "command", "echo quick; echo second line").Header("Job ID")
	long := first.do("execute_command_async", "command", "seq 1 5000", "wait_seconds", 30).Header("Job ID")
	python := first.do("execute_python", "wait_seconds", 60, "code", "x = 41\nprint('made x')\nx + 1").Header("Job ID")
	failed := first.do("execute_python", "wait_seconds", 60, "code", "1 / 0").Header("Job ID")
	ended := first.do("execute_command_async", "command", "echo begun; sleep 100", "wait_seconds", 0.2).Header("Job ID")
	first.stop()
	first.exit()

	s := first.restart(state)
	list := string(s.do("list_jobs"))
	for _, want := range []string{"Jobs: 5, newest first", quick, long, python, failed, ended, "ZeroDivisionError", "shutdown", "completed, shell, past, "} {
		if !strings.Contains(list, want) {
			t.Errorf("the list has no %q:\n%s", want, list)
		}
	}
	r := s.do("check_job_status", "job_id", quick[:20])
	if got := r.Section("STDOUT"); r.Header("Status") != "completed" && r.Header("Status") != "completed (exit 0)" || got != "quick\nsecond line\n" || r.Header("Past") == "" {
		t.Errorf("the quick job:\n%s", r)
	}
	r = s.do("check_python_status", "job_id", python)
	if got := r.Section("RESULT"); !strings.HasPrefix(r.Header("Status"), "completed") || strings.TrimSpace(got) != "42" || !strings.Contains(r.Header("Past"), "session default") {
		t.Errorf("the Python job:\n%s", r)
	}
	if r = s.do("check_job_status", "job_id", long, "cursor", 100, "max_chars", 600); !strings.Contains(string(r), "\n50\n") {
		t.Errorf("the output from a cursor:\n%s", r)
	}
	if r = s.do("search_job_output", "job_id", long, "pattern", "^4321$"); !strings.Contains(string(r), "4321") {
		t.Errorf("the search:\n%s", r)
	}
	if r = s.do("wait_for_jobs", "job_ids", []string{long, failed}); !strings.Contains(string(r), "ZeroDivisionError") {
		t.Errorf("the wait:\n%s", r)
	}
	if got := s.refused("send_command_input", "job_id", ended, "text", "x"); !strings.Contains(got, "has ended: cancelled") {
		t.Errorf("input: %s", got)
	}
	if got := s.refused("send_python_input", "job_id", failed, "text", "x"); !strings.Contains(got, "has ended: failed (ZeroDivisionError") {
		t.Errorf("input: %s", got)
	}
	if r = s.do("cancel_job", "job_id", ended); !strings.Contains(r.Header("Status"), "cancelled") || !strings.Contains(string(r), "had ended before") {
		t.Errorf("cancel:\n%s", r)
	}
	if got := s.refused("execute_python", "code", "x", "from_job", python); !strings.Contains(got, "its session default ended") {
		t.Errorf("from_job: %s", got)
	}
	if r = s.do("server_status"); !strings.Contains(r.Header("Records"), state) {
		t.Errorf("status:\n%s", r)
	}
	if got := s.refused("check_job_status", "job_id", "01K00000000000000000000000"); !strings.Contains(got, "Nearest:") {
		t.Errorf("an unknown id: %s", got)
	}
}

// A server that is killed takes its jobs and variables along, and the next one says so. What a
// reply has shown of them is not lost.
func TestKilledServerIsAccountedFor(t *testing.T) {
	overStdio(t, "a server over HTTP is killed in the same way")
	state := newState(t)
	first := startServer(t, "REPL_STATE_DIR="+state, "REPL_KEEPER=off") // TestFrontKillStorm kills engines
	first.do("execute_python", "wait_seconds", 60, "code", "rows = [1]\ntotal = 2")
	shown := first.do("execute_command_async", "command", "echo shown; sleep 1000", "wait_seconds", 0)
	id := shown.Header("Job ID")
	first.prints(id, "shown")
	busy := first.do("execute_python", "code", "import time\nprint('busy', flush=True)\ntime.sleep(1000)", "wait_seconds", 0).Header("Job ID")
	first.prints(busy, "busy")
	first.kill()

	s := first.restart(state)
	r := s.do("check_job_status", "job_id", id)
	lost := r.Header("Lost")
	for _, want := range []string{"an earlier server was killed", id, busy, "variables of session default: rows, total"} {
		if !strings.Contains(lost, want) {
			t.Errorf("no %q in %q", want, lost)
		}
	}
	if r.Header("Status") != "failed (server was killed)" || r.Section("STDOUT") != "shown\n" {
		t.Errorf("the command:\n%s", r)
	}
	r = s.do("check_python_status", "job_id", busy)
	if r.Header("Status") != "failed (server was killed; variables lost)" || !strings.Contains(string(r), "busy") || r.Header("Lost") != "" {
		t.Errorf("the Python job:\n%s", r)
	}
	s.stop()
	s.exit()
	if r := s.restart(state).do("list_jobs"); r.Header("Lost") != "" || !strings.Contains(string(r), "server was killed") {
		t.Errorf("the third server:\n%s", r)
	}
}

// If a server is killed within its first call, the next one says what both have taken along.
func TestServersThatAreKilledInOneCallEach(t *testing.T) {
	overStdio(t, "a server over HTTP is killed in the same way")
	state := newState(t)
	first := startServer(t, "REPL_STATE_DIR="+state, "REPL_KEEPER=off") // TestFrontKillStorm kills engines
	lost := []string{first.do("execute_command_async", "command", "sleep 1000", "wait_seconds", 0).Header("Job ID")}
	first.kill()
	second := first.restart(state, "REPL_KEEPER=off")
	must.Get(second.Start("execute_command_async", map[string]any{"command": "touch began; sleep 1000", "wait_seconds": 100}))(t)
	polltest.Until(t, "the job of the second server", func() bool {
		_, err := os.Stat(filepath.Join(second.dir, "began"))
		return err == nil
	})
	second.kill()
	third := second.restart(state)
	r := third.do("list_jobs")
	for line := range strings.Lines(string(r)) {
		if id, _, isJob := strings.Cut(line, " failed (server was killed"); isJob && !slices.Contains(lost, id) {
			lost = append(lost, id)
		}
	}
	if len(lost) != 2 {
		t.Errorf("killed were %q:\n%s", lost, r)
	}
	for _, id := range lost {
		if !strings.Contains(string(r), "and with it job "+id) {
			t.Errorf("job %s is not said to be lost:\n%s", id, r)
		}
	}
	if r = third.do("list_jobs"); r.Header("Lost") != "" {
		t.Errorf("it is said again:\n%s", r)
	}
}

// If a server is killed together with its guard, the next one ends what they have left. If jobs are
// recorded, the receipt says so.
func TestProcessesOfKilledServerAndGuard(t *testing.T) {
	overStdio(t, "a server over HTTP is killed in the same way")
	notApart(t, "the kernel ends all its processes with it")
	for _, history := range []string{"1", "0"} {
		t.Run("REPL_HISTORY="+history, func(t *testing.T) {
			state := newState(t)
			first := startServer(t, "REPL_STATE_DIR="+state, "REPL_HISTORY="+history, "REPL_KEEPER=off")
			started := first.do("execute_command_async", "command", "echo pid $$; exec sleep 1000", "tty", false, "wait_seconds", 0)
			id := started.Header("Job ID")
			_, rest, _ := strings.Cut(first.prints(id, "pid ").Section("STDOUT"), "pid ")
			pid := must.Get(strconv.Atoi(strings.TrimSpace(rest)))(t)
			works := first.do("server_status").Header("Works")
			_, rest, _ = strings.Cut(works, "guard (pid ")
			number, _, _ := strings.Cut(rest, ")")
			guard := must.Get(strconv.Atoi(number))(t)
			must.Do(t, syscall.Kill(guard, syscall.SIGKILL))
			first.kill()
			if err := syscall.Kill(pid, 0); err != nil {
				t.Fatalf("the command has ended with its server: %v", err)
			}
			s := first.restart(state, "REPL_HISTORY="+history)
			r := s.do("list_jobs")
			if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
				t.Error("the command still runs")
			}
			if history == "0" {
				if left := filesIn(t, state); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				return
			}
			if got := r.Header("Lost"); !strings.Contains(got, "; 1 process that it had left, ended now") {
				t.Errorf("lost: %q", got)
			}
			if r, want := s.do("check_job_status", "job_id", id), "sleep (pid "+strconv.Itoa(pid)+") outlived its server"; !strings.Contains(string(r), want) {
				t.Errorf("no %q in\n%s", want, r)
			}
		})
	}
}

// zombie reports whether a process has ended and waits for its parent.
func zombie(pid int) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // an error: it is gone
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z")
}

// Neither environments nor what is typed are recorded, if nothing prints them.
func TestNothingTypedIsRecorded(t *testing.T) {
	overStdio(t, "records are the same")
	state := newState(t)
	s := startServer(t, "REPL_STATE_DIR="+state, "OF_THE_SERVER=server-4711")
	r := s.do("execute_command_async", "command", "echo recorded; read -s x; echo read; sleep 1000", "env", map[string]string{"GIVEN": "given-4711"}, "wait_seconds", 0)
	id := r.Header("Job ID")
	s.prints(id, "recorded")
	polltest.Until(t, "the job to wait", func() bool {
		return s.do("check_job_status", "job_id", id, "wait_seconds", 1).Header("Waiting") != ""
	})
	s.do("send_command_input", "job_id", id, "text", "typed-4711\n")
	s.prints(id, "read")
	py := s.do("execute_python", "code", "import getpass; x = input('name? '); y = getpass.getpass()", "wait_seconds", 30).Header("Job ID")
	s.do("send_python_input", "text", "typed-4711")
	s.do("send_python_input", "text", "typed-4711")
	s.end(py)
	s.kill()
	recorded := false
	for _, path := range filesIn(t, state) {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // what the server had left is being removed
		}
		must.Do(t, err)
		text := string(b)
		if strings.Contains(text, "4711") {
			t.Errorf("%s has\n%s", path, text)
		}
		recorded = recorded || strings.Contains(text, "echo recorded")
	}
	if !recorded {
		t.Error("nothing was recorded")
	}
}

// Without records a server leaves nothing, however it ends.
func TestNoHistoryLeavesNothing(t *testing.T) {
	overStdio(t, "the end of a server is the same")
	for name, end := range map[string]func(*started){
		"ended": func(s *started) { s.stop(); s.exit() }, "killed": (*started).kill,
	} {
		t.Run(name, func(t *testing.T) {
			state := newState(t)
			s := startServer(t, "REPL_STATE_DIR="+state, "REPL_HISTORY=0")
			r := s.do("execute_command_async", "command", "seq 1 200000", "wait_seconds", 60)
			if id := r.Header("Job ID"); !strings.Contains(string(s.do("search_job_output", "job_id", id, "pattern", "^123456$")), "123456") {
				t.Errorf("long output can't be read:\n%s", r)
			}
			if got := s.do("server_status").Header("Records"); !strings.HasPrefix(got, "off") {
				t.Errorf("status: %q", got)
			}
			end(s)
			polltest.Until(t, "the removal of all files", func() bool { return len(filesIn(t, state)) == 0 })
			if r := s.restart(state, "REPL_HISTORY=0").do("list_jobs"); string(r) != "No jobs yet." {
				t.Errorf("the next server lists\n%s", r)
			}
		})
	}
}

// filesIn returns the files below a directory.
func filesIn(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return nil // what is removed meanwhile is not left
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}
