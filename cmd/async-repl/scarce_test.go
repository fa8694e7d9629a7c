package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// oddServer starts a server in odd surroundings and opens a session.
func oddServer(t *testing.T, odd func(*testing.T, *started), env ...string) *started {
	t.Helper()
	s := prepare(t, append([]string{"REPL_PYTHON=" + interpreter()}, env...)...)
	odd(t, s)
	s.open()
	return s
}

// startSleeper starts a job that prints a line and sleeps, and returns the job's reply once it has
// printed or ended.
func (s *started) startSleeper() (client.Reply, error) {
	r, err := s.Call(s.ctx(), "execute_command_async", map[string]any{"command": "echo up; exec sleep 300", "wait_seconds": 0})
	id := r.Header("Job ID")
	polltest.Until(s.t, "the line of a job, or its end", func() bool {
		status := r.Header("Status")
		if err != nil || status != "queued" && (status != "running" || strings.Contains(string(r), "\nup\n")) {
			return true
		}
		r, err = s.Call(s.ctx(), "check_job_status", map[string]any{"job_id": id, "wait_seconds": 0.02})
		return false
	})
	return r, err
}

// drain cancels jobs, which must have run until then, and checks that others can run after that.
func (s *started) drain(t *testing.T, running []string) {
	t.Helper()
	for _, id := range running {
		if got := s.cancel(id).Header("Status"); got != "cancelled (interrupted)" {
			t.Errorf("a job that ran is %q", got)
		}
	}
	for _, onTTY := range []bool{true, false} {
		r := s.do("execute_command_async", "command", "echo hi", "tty", onTTY, "wait_seconds", 60)
		if err := r.Expect("completed", "hi"); err != nil {
			t.Error(err)
		}
	}
}

// as makes a server run as another user, in a workspace that belongs to that user, with the limits
// that code sets. It needs root.
func as(uid int, code string) func(*testing.T, *started) {
	return func(t *testing.T, s *started) {
		overStdio(t, "only the server's own user may connect")
		inherited(t)
		needtest.Root(t, "become another user")
		state := newState(t)
		home, work := filepath.Dir(state), filepath.Join(filepath.Dir(state), "work")
		self := filepath.Join(home, "server")
		publish(t, s.cmd.Path, self, 0o755)
		if err := cmp.Or(os.Mkdir(work, 0o755), os.Chown(work, uid, uid), os.Chown(home, uid, uid)); err != nil {
			t.Fatal(err)
		}
		s.dir = work
		s.cmd.Path, s.cmd.Args, s.cmd.Dir = self, []string{self}, work
		s.cmd.Env = append(s.cmd.Env, "HOME="+home, "TMPDIR="+home, "REPL_STATE_DIR="+state)
		python(fmt.Sprintf("import resource\n%s\nos.setgroups([]); os.setgid(%d); os.setuid(%[2]d)", code, uid))(t, s)
	}
}

// At its limit of processes, which is one of threads too, the server refuses a start and says why,
// or it or its engine dies as any Go program does that can make no thread. Then the guard leaves
// nothing.
func TestFewProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts dozens of programs")
	}
	uid := 61_000 + os.Getpid()%1000
	s := oddServer(t, as(uid, "resource.setrlimit(resource.RLIMIT_NPROC, (45, 45))"))
	var running []string
	for refused := 0; refused < 5; {
		r, err := s.startSleeper()
		if err != nil {
			polltest.Until(t, "the reason of the end", func() bool {
				log := s.log.String()
				return strings.Contains(log, "failed to create new OS thread") || strings.Contains(log, "pthread_create failed")
			})
			s.stop() // a front outlives its engine
			s.exit()
			polltest.Until(t, "nothing to be left", func() bool { return processesOf(t, uid) == 0 })
			return
		}
		status := r.Header("Status")
		if status == "running" {
			if running = append(running, r.Header("Job ID")); len(running) > 60 {
				t.Fatal("the limit was not reached")
			}
			continue
		}
		refused++
		for _, want := range []string{"failed (could not start: ", "resource temporarily unavailable", "ulimit -u", "end jobs"} {
			if !strings.Contains(status, want) {
				t.Errorf("status %q lacks %q", status, want)
			}
		}
	}
	if len(running) < 5 {
		t.Errorf("only %d jobs ran", len(running))
	}
	s.drain(t, running)
}

// processesOf returns how many processes a user has.
func processesOf(t *testing.T, uid int) (n int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if st, err := os.Stat(dir); err == nil && st.Sys().(*syscall.Stat_t).Uid == uint32(uid) {
			n++
		}
	}
	return n
}

func TestOrdinaryUser(t *testing.T) {
	if testing.Short() {
		t.Skip("repeats what every server can do")
	}
	t.Parallel()
	s := oddServer(t, as(60_000+os.Getpid()%1000, ""))
	s.works(t)
}

func TestSmallFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("repeats what every server can do")
	}
	inherited(t)
	t.Parallel()
	s := oddServer(t, script("ulimit -f 1024"))
	r := s.do("execute_command_async", "command", "yes 0123456789 | head -c 5000000; echo; echo end", "wait_seconds", 60, "tty", false, "max_chars", 1000)
	if err := r.Expect("completed", "Dropped: ", "\nend\n"); err != nil || r.Header("Cursor") != "5000005" {
		t.Errorf("%v: %s", err, r)
	}
	r = s.do("execute_command_async", "command", "exec head -c 5000000 /dev/zero > f", "wait_seconds", 60)
	if err := r.Expect("failed (killed by SIGXFSZ)"); err != nil {
		t.Error(err)
	}
	s.works(t)
}

func TestLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("limits the address space")
	}
	inherited(t)
	t.Parallel()
	s := oddServer(t, script("ulimit -v 6000000"))
	r := s.do("execute_python", "code", "x = 1; y = bytearray(1 << 33)", "wait_seconds", 60)
	if err := r.Expect("failed (out of memory; variables kept)"); err != nil && !strings.Contains(r.Header("Status"), "MemoryError") {
		t.Error(err)
	}
	if err := s.do("execute_python", "code", "x", "wait_seconds", 60).Expect("completed", "1"); err != nil {
		t.Error(err)
	}
}

func TestReadOnlyWorkspace(t *testing.T) {
	notApart(t, "it needs a state directory")
	inherited(t)
	t.Parallel()
	s := prepare(t, "REPL_STATE_DIR=/proc/none")
	private("mount --bind . .; mount -o remount,bind,ro . .; cd \"$PWD\"")(t, s)
	s.open()
	remedies := []string{"REPL_VENV_DIR", "REPL_PYTHON"}
	if carrier() != "" {
		remedies = []string{"set workspace in the file of places", "python in the file of places"}
	}
	for _, tool := range []string{"execute_python", "install_package_async"} {
		name := map[string]string{"execute_python": "code", "install_package_async": "package"}[tool]
		status := s.do(tool, name, "x", "wait_seconds", 60).Header("Status")
		for _, want := range append([]string{"failed (could not start: ", "read-only file system"}, remedies...) {
			if !strings.Contains(status, want) {
				t.Errorf("%s: status %q lacks %q", tool, status, want)
			}
		}
	}
	r := s.do("execute_command_async", "command", "pwd; touch x", "wait_seconds", 60)
	if err := r.Expect("failed (exit 1)", s.dir, "Read-only file system"); err != nil {
		t.Error(err)
	}
	// Long output can't be kept either. The reply says so, and shows the output that is in memory.
	r = s.do("execute_command_async", "command", "yes 0123456789 | head -c 2000000; echo; echo end", "tty", false, "wait_seconds", 60, "max_chars", 1000)
	if err := r.Expect("completed", "Dropped: ", "\nend\n"); err != nil || r.Header("Cursor") != "2000005" {
		t.Errorf("%v: %s", err, r)
	}
}

func TestWorkspaceGoes(t *testing.T) {
	notApart(t, "it holds the workspace, or does not start")
	t.Parallel()
	s := startServer(t)
	if err := os.Remove(s.dir); err != nil {
		t.Fatal(err)
	}
	for tool, name := range map[string]string{"execute_command_async": "command", "execute_python": "code"} {
		status := s.do(tool, name, "1", "wait_seconds", 60).Header("Status")
		for _, want := range []string{"failed (could not start: ", s.dir, "make it"} {
			if !strings.Contains(status, want) {
				t.Errorf("%s: status %q lacks %q", tool, status, want)
			}
		}
	}
	if _, err := os.Stat(s.dir); err == nil {
		t.Error("the workspace was made again")
	}
	r := s.do("execute_command_async", "command", "pwd", "cwd", "/", "wait_seconds", 60)
	if err := r.Expect("completed", "/"); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.do("execute_command_async", "command", "pwd", "wait_seconds", 60).Expect("completed", s.dir); err != nil {
		t.Error(err)
	}
}

// A server that can't serve says why and how to fix it.
func TestRefusedStarts(t *testing.T) {
	for name, c := range map[string]struct {
		odd  func(*testing.T, *started)
		exit string
		says []string
	}{
		"no directory":  {script("mkdir x; cd x; rmdir ../x"), "exit status 1", []string{"finding the current directory", "REPL_WORKDIR"}},
		"no workspace":  {through("env", "REPL_WORKDIR=/none/such"), "exit status 1", []string{"/none/such", "REPL_WORKDIR", "a directory that exists"}},
		"no REPL_SHELL": {through("env", "REPL_SHELL=/none/such"), "exit status 1", []string{`REPL_SHELL="/none/such"`, "allowed"}},
		"no shell": {private("for f in /bin/bash /bin/sh; do if test -e $f; then mount --bind /dev/null \"$(readlink -f $f)\"; fi; done"),
			"exit status 1", []string{"neither bash nor sh", "REPL_SHELL"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := prepare(t)
			c.odd(t, s)
			s.begin()
			if got := s.exit(); got != c.exit {
				t.Errorf("%s, want %s", got, c.exit)
			}
			for _, want := range c.says {
				if !strings.Contains(s.log.String(), want) {
					t.Errorf("it says %q, which lacks %q", s.log, want)
				}
			}
		})
	}
}

// The current directory can be gone if a setting names another.
func TestNoDirectoryButAWorkspace(t *testing.T) {
	t.Parallel()
	s := oddServer(t, script("mkdir x; cd x; rmdir ../x"), "REPL_WORKDIR="+t.TempDir())
	if err := s.do("execute_command_async", "command", "pwd", "wait_seconds", 60).Expect("completed", "/"); err != nil {
		t.Error(err)
	}
}

func TestNoTerminals(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts other terminals")
	}
	notApart(t, "it has terminals of its own")
	inherited(t)
	for name, c := range map[string]struct{ mounts, says string }{
		"no device": {"mount --bind /dev/null /dev/ptmx", "inappropriate ioctl"},
		"none left": {"mount -t devpts -o newinstance,max=1,ptmxmode=666 devpts /dev/pts; mount --bind /dev/pts/ptmx /dev/ptmx", "kernel.pty.max"},
	} {
		t.Run(name, func(t *testing.T) {
			s := oddServer(t, private(c.mounts))
			if name == "none left" {
				s.prints(s.do("execute_command_async", "command", "echo on; sleep 300", "wait_seconds", 0).Header("Job ID"), "on")
			}
			r := s.do("execute_command_async", "command", "echo hi", "wait_seconds", 60)
			if status := r.Header("Status"); !strings.Contains(status, c.says) || !strings.Contains(status, "tty=false") {
				t.Errorf("status %q", status)
			}
			r = s.do("execute_command_async", "command", "echo hi", "tty", false, "wait_seconds", 60)
			if err := r.Expect("completed", "hi"); err != nil {
				t.Error(err)
			}
			if status := s.do("execute_python", "code", "1", "wait_seconds", 60).Header("Status"); !strings.Contains(status, "a Python session needs a terminal") || !strings.Contains(status, c.says) {
				t.Errorf("status %q", status)
			}
		})
	}
}

// Command lines that are too long for an argument run.
func TestLoadLongCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many long command lines")
	}
	t.Parallel()
	shells := []string{"bash", "dash"}
	for _, shell := range shells {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s here", shell)
			continue
		}
		s := oddServer(t, through("env", "REPL_SHELL="+path))
		for _, size := range []int{131_071, 131_072, 200_000, 1_500_000} {
			for _, onTTY := range []bool{true, false} {
				const line = `test -e /proc/$$/fd/3 && echo open; echo "<$0>"; (exit 7)`
				short := s.do("execute_command_async", "command", line, "tty", onTTY, "wait_seconds", 60)
				long := s.do("execute_command_async", "command", ": "+strings.Repeat("x", size-len(line)-4)+"; "+line, "tty", onTTY, "wait_seconds", 60)
				if err := long.Expect("failed (exit 7)"); err != nil {
					t.Error(err)
				}
				if got, want := long.Section("STDOUT"), short.Section("STDOUT"); got != want {
					t.Errorf("%s, %d bytes, tty %v: it printed %q; a short one %q", shell, size, onTTY, got, want)
				}
			}
		}
	}
}

// A variable that is too long for any program is refused with that reason.
func TestHugeVariable(t *testing.T) {
	t.Parallel()
	s := oddServer(t, script(""))
	r := s.do("execute_command_async", "command", "true", "env", map[string]string{"BIG": strings.Repeat("x", 200_000)}, "wait_seconds", 60)
	if status := r.Header("Status"); !strings.Contains(status, "argument list too long") || !strings.Contains(status, "environment") {
		t.Errorf("status %q", status)
	}
	if err := s.do("execute_command_async", "command", "echo on", "wait_seconds", 60).Expect("completed", "on"); err != nil {
		t.Error(err)
	}
}

// A server that is started without its standard streams has no client, and exits. No file that it
// opens takes the place of a stream.
func TestClosedStreams(t *testing.T) {
	overStdio(t, "a server that many clients share needs no streams")
	for _, closed := range []string{"<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"} {
		t.Run(closed, func(t *testing.T) {
			s := prepare(t)
			script("exec "+closed)(t, s)
			s.connect()
			io.WriteString(s.stdin, toolCall("1", "execute_command_async", "command", "sleep 300")+"\n")
			s.stdin.Close()
			if got := s.exit(); got != "exit status 0" {
				t.Error(got)
			}
		})
	}
}

// Writing to a log that is not read never blocks. The number of dropped lines is logged when there
// is room again.
func TestLogThatNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	must.Do(t, r.SetReadDeadline(time.Now().Add(patience)))
	log := newLogWriter(w)
	line := []byte(strings.Repeat("x", 9_999) + "\n")
	for range 20 {
		log.Write(line)
	}
	got := make([]byte, 1<<20)
	n, err := r.Read(got)
	if err != nil || n < 50_000 {
		t.Fatalf("read %d bytes: %v", n, err)
	}
	log.Write([]byte("after\n"))
	w.Close()
	rest, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(rest), "lines of the log were dropped") || !strings.HasSuffix(string(rest), "after\n") {
		t.Errorf("then came %q, %v", rest, err)
	}
}
