package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// planted returns the pid that a job printed as "pid N.".
func planted(t *testing.T, r client.Reply) int {
	t.Helper()
	_, rest, _ := strings.Cut(r.Section("STDOUT"), "pid ")
	number, _, _ := strings.Cut(rest, ".")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatalf("no process is named: %s", r)
	}
	return pid
}

func there(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// holds checks that each header has its value. An empty value means that the header must be absent.
func holds(t testing.TB, r client.Reply, headers ...string) {
	t.Helper()
	for i := 0; i < len(headers); i += 2 {
		if got := r.Header(headers[i]); got != headers[i+1] {
			t.Errorf("%s is %q, want %q:\n%s", headers[i], got, headers[i+1], r)
		}
	}
}

// The receipt also names the rungs that a tree needed after its leader had exited. A child in the
// foreground prints the pid once it has executed its program: until then, bash can lose an interrupt.
func TestReceiptNamesEveryRung(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for name, test := range map[string]struct{ line, status, rungs string }{
		"leader alone":  {`echo "pid $$."; sleep 300`, "cancelled (interrupted)", ""},
		"hung up":       {`sleep 300 & sh -c "echo pid $!.; exec sleep 300"`, "cancelled (interrupted)", ""},
		"stopped":       {`echo "pid $$."; kill -STOP $$`, "cancelled (interrupted)", ""},
		"one that left": {`setsid sleep 300 & sh -c "echo pid $!.; exec sleep 300"`, "cancelled (interrupted)", "interrupt; terminate for the processes it had started"},
		"a deaf one":    {`(trap '' INT TERM HUP; exec setsid sleep 300) & sh -c "echo pid $!.; exec sleep 300"`, "cancelled (interrupted)", "interrupt; terminate, kill for the processes it had started"},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.do("execute_command_async", "command", test.line, "wait_seconds", 0)
			id := r.Header("Job ID")
			r = s.prints(id, "pid ")
			pid := s.seen(planted(t, r))
			asleep(t, pid)
			s.do("cancel_job", "job_id", id)
			holds(t, s.end(id), "Status", test.status, "Rungs", test.rungs, "Survivors", "")
			gone(t, []int{pid})
		})
	}
}

// asleep waits until a process has execed sleep, bash or Python, and sleeps or is stopped.
func asleep(t testing.TB, pid int) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("the sleep of process %d", pid), func() bool {
		p, err := procfs.Inspect(pid)
		return err == nil && (p.State == 'S' || p.State == 'T') && (p.Program == "sleep" || p.Program == "bash" || strings.HasPrefix(p.Program, "python"))
	})
}

// Processes that a job left are named while they run, and a cancel of the ended job ends them.
func TestLeftRunning(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, how := range []string{"cancelled", "forced", "by itself"} {
		t.Run(how, func(t *testing.T) {
			r := s.do("execute_command_async", "command", `setsid sleep 300 & echo "pid $!."; until grep -q sleep /proc/$!/comm; do :; done; exit 3`, "wait_seconds", 60)
			id, pid := r.Header("Job ID"), planted(t, r)
			seen := s.seen(pid)
			left := fmt.Sprintf("sleep (pid %d)", pid)
			holds(t, r, "Status", "failed (exit 3)", "Left running", left, "Note", "")
			switch how {
			case "by itself":
				syscall.Kill(seen, syscall.SIGTERM)
			default:
				holds(t, s.do("cancel_job", "job_id", id, "force", how == "forced"), "Status", "failed (exit 3)", "Ended now", left)
			}
			polltest.Until(t, "nothing to be left", func() bool { return s.do("check_job_status", "job_id", id).Header("Left running") == "" })
			holds(t, s.do("check_job_status", "job_id", id), "Status", "failed (exit 3)", "Note", "left running, and ended since: "+left)
			gone(t, []int{seen})
			holds(t, s.do("cancel_job", "job_id", id), "Status", "failed (exit 3)", "Ended now", "")
		})
	}
}

// orphan runs a job that leaves a process in a session of its own, without a mark or a descriptor
// that shows its job, and returns both with the reply about the job's end. Replies about a job scan
// its tree, so orphan asks for none while the parents of the process live.
func orphan(t *testing.T, s *started, name string) (id string, pid int, end client.Reply) {
	t.Helper()
	id = s.do("execute_command_async", "tty", false, "command", `until [ -e go`+name+` ]; do sleep 0.01; done
(env -i setsid sleep 300 </dev/null >/dev/null 2>&1 & echo "pid $!."; until grep -q sleep /proc/$!/comm; do :; done)
> over`+name+`; read x`, "wait_seconds", 0).Header("Job ID")
	s.write("go"+name, "")
	polltest.Until(t, "the start of the process", func() bool { _, err := os.Stat(filepath.Join(s.dir, "over"+name)); return err == nil })
	pid = planted(t, s.prints(id, "pid "))
	asleep(t, s.seen(pid))
	s.do("send_command_input", "job_id", id, "text", "go\n")
	return id, pid, s.end(id)
}

// A process of unknown job is named by every job that it could belong to, and ends with the last of
// them.
func TestUnclaimed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.do("execute_command_async", "command", "echo on; read x", "wait_seconds", 0).Header("Job ID")
	s.prints(other, "on\n")
	id, pid, r := orphan(t, s, "1")
	end := time.Now().Add(polltest.Patience)
	for n := 2; r.Header("Left running") != ""; n++ { // a scan has seen its parents
		s.do("cancel_job", "job_id", id, "force", true)
		if time.Now().After(end) {
			t.Fatal("the job of every process is known")
		}
		id, pid, r = orphan(t, s, fmt.Sprint(n))
	}
	holds(t, r, "Status", "completed", "Unclaimed", fmt.Sprintf("sleep (pid %d); of this job or of another", pid))
	seen := s.seen(pid)
	if !there(seen) {
		t.Fatal("it was ended while a job that could have started it runs")
	}
	s.do("send_command_input", "job_id", other, "text", "go\n")
	holds(t, s.end(other), "Status", "completed") // it can name the process, or have ended it first
	gone(t, []int{seen})
}

// freezer makes a control group whose processes can't be ended while they are frozen, like
// processes that wait for a disk.
func freezer(t *testing.T) string {
	t.Helper()
	notApart(t, "no job joins a control group")
	dir, err := os.MkdirTemp("/sys/fs/cgroup/freezer", "async-repl-test-")
	needtest.Unless(t, "no process can be made unkillable here", err, fs.ErrPermission, syscall.EROFS, fs.ErrNotExist)
	t.Cleanup(func() {
		freeze(t, dir, "THAWED")
		polltest.Check(t, func() error { return os.Remove(dir) })
	})
	return dir
}

// freeze freezes or thaws all processes of a group.
func freeze(t *testing.T, dir, state string) {
	t.Helper()
	file := filepath.Join(dir, "freezer.state")
	polltest.Until(t, "the group to be "+state, func() bool {
		must.Do(t, os.WriteFile(file, []byte(state), 0))
		got, err := os.ReadFile(file)
		return err != nil || strings.TrimSpace(string(got)) == state
	})
}

// Processes that can't be ended are named, and no call waits for them.
func TestSurvivors(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until every rung has failed")
	}
	// Each plants one in the group, stops it there, and ends the job.
	for name, test := range map[string]struct {
		tool, code string // %s joins the group
		force      bool
		status     string
		rungs      string
	}{
		"a shell": {"execute_command_async", `%s; echo "pid $$."; sleep 300`, true,
			"cancelled (could not be ended)", ""},
		"a child": {"execute_command_async", `(%s; exec setsid sleep 300) & sh -c "echo pid $!.; exec sleep 300"`, false,
			"cancelled (interrupted)", "interrupt; terminate, kill for the processes it had started"},
		"a worker": {"execute_python", "import os, subprocess, time\nsubprocess.run('%s', shell=True)\nprint(f'pid {os.getpid()}.', flush=True)\ntime.sleep(300)", true,
			"cancelled (could not be ended; variables lost)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := freezer(t)
			s := startServer(t)
			join := fmt.Sprintf("echo $PPID > %s/cgroup.procs", dir)
			if name != "a worker" {
				join = fmt.Sprintf("echo 0 > %s/cgroup.procs", dir)
			}
			argument := map[string]string{"execute_python": "code", "execute_command_async": "command"}[test.tool]
			id := s.do(test.tool, argument, fmt.Sprintf(test.code, join), "wait_seconds", 0).Header("Job ID")
			pid := planted(t, s.prints(id, "pid "))
			if test.tool == "execute_command_async" {
				asleep(t, pid)
			}
			freeze(t, dir, "FROZEN")
			s.do("cancel_job", "job_id", id, "force", test.force)
			r := s.end(id)
			holds(t, r, "Status", test.status, "Rungs", test.rungs)
			if !strings.Contains(r.Header("Survivors"), fmt.Sprintf("(pid %d)", pid)) {
				t.Errorf("it is not among the survivors:\n%s", r)
			}
			holds(t, s.do(test.tool, argument, "1 == 1", "wait_seconds", 60), "Cancelling", "") // the next job runs
			freeze(t, dir, "THAWED")
			gone(t, []int{pid})
			if test.tool == "execute_command_async" {
				polltest.Until(t, "no survivor", func() bool { return s.do("check_job_status", "job_id", id).Header("Survivors") == "" })
			}
		})
	}
}

// A shutdown does not wait for a process that can't be ended.
func TestShutdownWithASurvivor(t *testing.T) {
	if testing.Short() {
		t.Skip("freezes a control group")
	}
	t.Parallel()
	dir := freezer(t)
	s := startServer(t)
	r := s.do("execute_command_async", "command", fmt.Sprintf(`echo 0 > %s/cgroup.procs; echo "pid $$."; sleep 300`, dir), "wait_seconds", 0)
	pid := planted(t, s.prints(r.Header("Job ID"), "pid "))
	freeze(t, dir, "FROZEN")
	s.signal(syscall.SIGTERM)
	s.exit()
	if !there(pid) {
		t.Error("it could be ended")
	}
	freeze(t, dir, "THAWED")
	gone(t, []int{pid})
}

func (s *started) signal(sig syscall.Signal) { s.cmd.Process.Signal(sig) } // an error: it has ended

// limitedGroup makes a control group with a limit of 384 MiB of memory.
func limitedGroup(t *testing.T) string {
	t.Helper()
	for _, group := range [][2]string{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir, err := os.MkdirTemp(group[0], "async-repl-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			polltest.Check(t, func() error { return os.Remove(dir) })
		})
		if os.WriteFile(filepath.Join(dir, group[1]), []byte("402653184"), 0) == nil {
			return dir
		}
	}
	t.Skip("no control group with a limit of memory can be made here")
	return ""
}

// A kill is reported as out of memory if the kernel's count of its own control group says so. A
// plain SIGKILL is not, nor a kill in another control group.
func TestOutOfMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("uses up the memory of a control group")
	}
	notApart(t, "its control group is not seen there")
	inherited(t)
	python := realPython()
	s := oddServer(t, script(fmt.Sprintf("echo 0 > %s/cgroup.procs", limitedGroup(t))), "REPL_PYTHON="+python)
	const grow, die = "x = bytearray(512 << 20)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
	s.do("execute_python", "code", "1", "wait_seconds", 60)
	holds(t, s.do("execute_python", "code", grow, "wait_seconds", 60), "Status", "failed (out of memory; variables lost)", "Ended by", "limit")
	holds(t, s.do("execute_python", "code", die, "wait_seconds", 60), "Status", "failed (killed by SIGKILL; variables lost)", "Ended by", "outside or unknown")
	command := func(format, code string) client.Reply {
		file := filepath.Join(s.dir, "memory.py")
		if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		return s.do("execute_command_async", "command", fmt.Sprintf(format, python+" "+file), "wait_seconds", 60)
	}
	holds(t, command("exec %s", grow), "Status", "failed (out of memory)", "Ended by", "limit")
	holds(t, command("exec %s", die), "Status", "failed (killed by SIGKILL)", "Ended by", "outside or unknown")

	s.do("execute_python", "code", "1", "wait_seconds", 60)
	join := fmt.Sprintf("open('%s/cgroup.procs', 'w').write('0')\n", limitedGroup(t))
	holds(t, command("%s; [ $? = 137 ]", join+grow), "Status", "completed")
	holds(t, s.do("execute_python", "code", die, "wait_seconds", 60), "Status", "failed (killed by SIGKILL; variables lost)", "Ended by", "outside or unknown")
}

// publish copies a program to where every user can run it.
func publish(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		processtest.WriteProgram(t, to, string(b))
		err = os.Chmod(to, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ordinaryID is the uid and gid of the user that tests become. That user owns only what a test gives.
const ordinaryID = 65534

// becomeOrdinary has the server run as an ordinary user, from a copy of its program that the user
// can read. The user gets the paths.
func (s *started) becomeOrdinary(t *testing.T, paths []string) {
	t.Helper()
	inherited(t)
	public, state := filepath.Dir(s.dir), s.setting("REPL_STATE_DIR")
	self := filepath.Join(public, "server")
	publish(t, s.cmd.Path, self, 0o755)
	s.cmd.Path = self
	err := cmp.Or(os.Chmod(public, 0o755), os.MkdirAll(state, 0o700))
	for _, path := range append(paths, state, filepath.Dir(state)) {
		err = cmp.Or(err, os.Chown(path, ordinaryID, ordinaryID))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}}
}

// An ordinary server can't end a program that has become another user's.
func TestSurvivorOfAnotherUser(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until every rung has failed")
	}
	overStdio(t, "only the server's own user may connect")
	notApart(t, "no program becomes another user's")
	t.Parallel() // it waits most of its time
	needtest.Root(t, "make a program that becomes another user's")
	setpriv := needtest.Program(t, "setpriv")
	s := prepare(t)
	become := filepath.Join(filepath.Dir(s.dir), "become")
	publish(t, setpriv, become, 0o755|os.ModeSetuid)
	s.becomeOrdinary(t, []string{s.dir})
	s.open()

	id := s.do("execute_command_async", "command", `echo "pid $$."; exec `+become+` --reuid=0 --regid=0 --clear-groups sleep 300`, "wait_seconds", 0).Header("Job ID")
	pid := planted(t, s.prints(id, "pid "))
	asleep(t, pid)
	if st := must.Get(os.Stat(fmt.Sprintf("/proc/%d", pid)))(t); st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Skip("a program can't become another user's here")
	}
	s.do("cancel_job", "job_id", id, "force", true)
	survivor := fmt.Sprintf("sleep (pid %d)", pid)
	holds(t, s.end(id), "Status", "cancelled (could not be ended)", "Survivors", survivor)
	holds(t, s.do("cancel_job", "job_id", id), "Status", "cancelled (could not be ended)", "Survivors", survivor) // tried again
	holds(t, s.do("execute_command_async", "command", "echo on", "wait_seconds", 60), "Status", "completed")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	polltest.Until(t, "no survivor", func() bool { return s.do("check_job_status", "job_id", id).Header("Survivors") == "" })
	holds(t, s.do("check_job_status", "job_id", id), "Note", "left running, and ended since: "+survivor)
}
