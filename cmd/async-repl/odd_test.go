package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/needtest"
)

// through makes a server start through another program: prefix is its command line, to which the
// server's is appended.
func through(prefix ...string) func(*testing.T, *started) {
	return func(t *testing.T, s *started) {
		path := needtest.Program(t, prefix[0])
		s.cmd.Path, s.cmd.Args = path, append(prefix, s.cmd.Args...)
	}
}

// interpreter returns a Python that any user can run from anywhere.
var interpreter = sync.OnceValue(func() string {
	const system = "/usr/bin/python3"
	if _, err := os.Stat(system); err == nil {
		return system
	}
	return realPython()
})

// script makes a server start through a shell script that execs it.
func script(lines string) func(*testing.T, *started) {
	return through("sh", "-c", lines+"\nexec \"$0\" \"$@\"")
}

// python makes a server start through a Python program that execs it.
func python(code string) func(*testing.T, *started) {
	return through(realPython(), "-I", "-c", "import os, signal, sys, fcntl, termios\n"+code+"\nos.execv(sys.argv[1], sys.argv[1:])")
}

// private makes a server run lines of shell in a mount namespace of its own first.
func private(lines string) func(*testing.T, *started) {
	return func(t *testing.T, s *started) {
		out, err := exec.Command("unshare", "-m", "true").CombinedOutput()
		needtest.Right(t, "make a mount namespace", err, out)
		through("unshare", "-m", "sh", "-ec", lines+"\nexec \"$0\" \"$@\"")(t, s)
	}
}

func attributes(a syscall.SysProcAttr) func(*testing.T, *started) {
	return func(_ *testing.T, s *started) { s.cmd.SysProcAttr = &a }
}

// TestSurroundings checks that everything works in a server that was started in odd surroundings.
func TestSurroundings(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server for each of many surroundings")
	}
	for name, odd := range map[string]func(*testing.T, *started){
		"leads its session":        attributes(syscall.SysProcAttr{Setsid: true}),
		"leads its group":          attributes(syscall.SysProcAttr{Setpgid: true}),
		"controlling terminal":     func(t *testing.T, s *started) { controlled(t, s, true) },
		"background of a terminal": func(t *testing.T, s *started) { controlled(t, s, false) },
		"no stderr":                script(`exec 2>&-`),
		"stderr is full":           fullStderr,
		"ignored signals":          python("for s in range(1, 65):\n  if s not in (9, 19, 32, 33, 34): signal.signal(s, signal.SIG_IGN)"),
		"blocked signals":          python("signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))"),
		"umask 777":                script("umask 777"),
		"empty environment": func(t *testing.T, s *started) {
			s.cmd.Env = []string{}
			s.cmd.Args = append(s.cmd.Args, "-python", interpreter(), "-state-dir", newState(t))
		},
		"no TERM, HOME or PATH": func(_ *testing.T, s *started) { s.cmd.Env = without(s.cmd.Env, "TERM", "HOME", "PATH") },
		"odd environment": func(_ *testing.T, s *started) {
			s.cmd.Env = append(s.cmd.Env, "=x", "novalue", "A=\xff\n", "BASH_ENV=/none", "ENV=/none", "SHELL=/none", "PYTHONSTARTUP=/none", "LC_ALL=xx_XX")
		},
		"large environment": func(_ *testing.T, s *started) {
			for i := range 12 {
				s.cmd.Env = append(s.cmd.Env, "BIG"+string(rune('a'+i))+"="+strings.Repeat("x", 100_000))
			}
		},
		"odd directory, no TMPDIR": func(t *testing.T, s *started) {
			s.cmd.Env = append(s.cmd.Env, "TMPDIR=/none")
			name := "a b\nc\t'ü\" $x;"
			if carrier() != "" { // a file of places holds no control characters
				name = strings.NewReplacer("\n", "", "\t", "").Replace(name)
			}
			s.cmd.Dir = t.TempDir() + "/" + name
			s.dir = s.cmd.Dir
			if err := os.Mkdir(s.cmd.Dir, 0o777); err != nil {
				t.Fatal(err)
			}
		},
		"hidden processes": private("mount -t proc -o hidepid=2 proc /proc"),
		"first of its namespace": func(t *testing.T, s *started) {
			out, err := exec.Command("unshare", "-pf", "--mount-proc", "true").CombinedOutput()
			needtest.Right(t, "make a process namespace", err, out)
			through("unshare", "-pf", "--mount-proc")(t, s)
			s.apart = true // its pids differ, and the kernel ends all its processes with it
		},
		"dash": func(t *testing.T, s *started) {
			path := needtest.Program(t, "dash")
			s.cmd.Env = append(s.cmd.Env, "REPL_SHELL="+path)
		},
		"low limits": script("ulimit -v 6000000; ulimit -n 64; ulimit -f 64; ulimit -c 0; ulimit -s 1024"),
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "stderr") {
				overStdio(t, "the server says its address there")
			}
			if strings.HasPrefix(name, "empty") || strings.HasPrefix(name, "no TERM") {
				notApart(t, "bubblewrap is found on the PATH")
				inherited(t) // the programs of other carriers are found there, too
			}
			t.Parallel()
			oddServer(t, odd).works(t)
		})
	}
}

// works uses everything that a server can do, and checks that nothing is left of it.
func (s *started) works(t *testing.T) {
	t.Helper()
	check := func(r client.Reply, status string, holds ...string) {
		t.Helper()
		if err := r.Expect(status, holds...); err != nil {
			t.Errorf("%v:\n%s", err, r)
		}
	}
	for _, onTTY := range []bool{true, false} {
		check(s.do("execute_command_async", "command", "echo out; kill -0 $$; trap", "tty", onTTY, "wait_seconds", 60), "completed", "out")
		// A child has the dispositions that a program expects.
		r := s.do("execute_command_async", "command", "grep Sig.[lg][kn] /proc/self/status; yes | head -n1; umask", "tty", onTTY, "wait_seconds", 60)
		check(r, "completed", "SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000", "y\n")
	}
	r := s.do("execute_command_async", "command", `read -r a; echo "<$a>"; sleep 300`, "wait_seconds", 60)
	check(r, "waiting_input")
	id := r.Header("Job ID")
	s.do("send_command_input", "job_id", id, "text", "hello\n", "wait_seconds", 0)
	s.prints(id, "<hello>")
	check(s.cancel(id), "cancelled (interrupted)")

	check(s.do("execute_python", "code", "x = 6\nimport subprocess, multiprocessing, tempfile", "wait_seconds", 60), "completed")
	check(s.do("execute_python", "code", "subprocess.run(['sh', '-c', 'echo child $0', str(x * 7)], stdout=subprocess.PIPE).stdout", "wait_seconds", 60), "completed", "child 42")
	r = s.do("execute_python", "code", "input('? ')", "wait_seconds", 60)
	check(r, "waiting_input")
	check(s.do("send_python_input", "text", "yes", "wait_seconds", 60), "completed", "'yes'")
	r = s.do("execute_python", "code", "import time\nprint('on', flush=True)\ntime.sleep(300)", "wait_seconds", 0)
	s.prints(r.Header("Job ID"), "on")
	check(s.cancel(r.Header("Job ID")), "cancelled (interrupted; variables kept)")
	check(s.do("execute_python", "code", "x", "wait_seconds", 60), "completed", "6")
	if got := s.do("list_jobs"); strings.Count(string(got), "\n") < 8 {
		t.Errorf("list_jobs: %s", got)
	}

	pids := plantSome(t, s, "daemon", "bare left") // the hardest to find
	s.stop()
	if got := s.exit(); got != "exit status 0" {
		t.Error(got)
	}
	if !s.apart {
		gone(t, pids)
	}
}

// cancel cancels a job and waits for its end.
func (s *started) cancel(id string) client.Reply {
	s.t.Helper()
	s.do("cancel_job", "job_id", id)
	return s.end(id)
}

// controlled gives the server a controlling terminal and puts it in the foreground or the
// background. The terminal's output is not read.
func controlled(t *testing.T, s *started, foreground bool) {
	pty, err := tty.Open(24, 80)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pty.Close)
	s.cmd.ExtraFiles = []*os.File{pty.Slave()}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	if !foreground {
		python(`if os.fork():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for fd in 0, 1, 2: os.close(fd)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
os.setpgid(0, 0)
os.close(3)`)(t, s)
	}
}

// fullStderr makes stderr a full pipe that is not read.
func fullStderr(t *testing.T, s *started) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	conn, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(func(fd uintptr) bool {
		for {
			if _, err := syscall.Write(int(fd), make([]byte, 4096)); errors.Is(err, syscall.EAGAIN) {
				return true
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = w
	s.cmd.Env = append(s.cmd.Env, "REPL_LOG_LEVEL=debug")
}

// without returns env without the named variables.
func without(env []string, names ...string) (rest []string) {
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		keep := true
		for _, n := range names {
			keep = keep && n != name
		}
		if keep {
			rest = append(rest, kv)
		}
	}
	return rest
}
