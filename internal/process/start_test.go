//go:build linux

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/test/must"

	"github.com/creack/pty"
)

func TestExitStatus(t *testing.T) {
	o := newOwner(t)
	tests := []struct {
		script string
		want   Exit
	}{
		{"exit 0", Exit{}},
		{"exit 7", Exit{Code: 7}},
		{"kill -SEGV $$", Exit{Code: -1, Signal: syscall.SIGSEGV}},
		{"kill -KILL $$", Exit{Code: -1, Signal: syscall.SIGKILL}},
		{"ulimit -c 0; kill -ABRT $$", Exit{Code: -1, Signal: syscall.SIGABRT}},
		{"exec sh -c 'exit 255'", Exit{Code: 255}},
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			h := must.Get(o.Start(Spec{Argv: []string{"bash", "-c", tt.script}, Env: testEnv}))(t)
			if got := ends(t, h); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if err := h.Signal(syscall.SIGTERM); !errors.Is(err, procfs.ErrGone) {
				t.Errorf("signal after the end: %v, want %v", err, procfs.ErrGone)
			}
			if err := h.Interrupt(); !errors.Is(err, procfs.ErrGone) {
				t.Errorf("interrupt after the end: %v, want %v", err, procfs.ErrGone)
			}
			if hungUp, left, err := h.Settle(); hungUp != nil || left != nil || err != nil {
				t.Errorf("settled: hung up %v, left %v, error %v", hungUp, left, err)
			}
		})
	}
}

func TestStartSpec(t *testing.T) {
	o := newOwner(t)
	dir := t.TempDir()
	tests := []struct {
		name string
		spec Spec
		want string
	}{
		{"directory", Spec{Argv: []string{"pwd"}, Dir: dir}, dir},
		{"environment", Spec{Argv: []string{"env"}, Mark: "job1"}, strings.Join(testEnv, "\n") + "\nASYNC_REPL_JOB=job1\nASYNC_REPL_JOB_OWNER=" + o.token()},
		{"no mark", Spec{Argv: []string{"env"}}, strings.Join(testEnv, "\n") + "\nASYNC_REPL_JOB_OWNER=" + o.token()},
		{"leads its session and group", Spec{Argv: []string{"python3", "-c", "import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))"}}, "True"},
		{"null in place of stdin", Spec{Argv: []string{"readlink", "/proc/self/fd/0"}}, "/dev/null"},
		{"no other descriptor", Spec{Argv: []string{"bash", "-c", "echo /proc/$$/fd/*"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, w := must.Get2(os.Pipe())(t)
			tt.spec.Env = append(tt.spec.Env, testEnv...)
			tt.spec.Files = []*os.File{nil, w, nil}
			h, err := o.Start(tt.spec)
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			j := &job{Handle: h}
			j.pump = pump.New(r, j.write)
			defer j.pump.Close()
			ends(t, h)
			j.pump.Drain()
			got := strings.TrimSuffix(j.output(), "\n")
			if tt.name == "no other descriptor" {
				tt.want = fmt.Sprintf("/proc/%d/fd/0 /proc/%[1]d/fd/1 /proc/%[1]d/fd/2", h.PID())
				got = strings.ReplaceAll(got, fmt.Sprintf(" /proc/%d/fd/255", h.PID()), "") // bash's own
				got = strings.ReplaceAll(got, fmt.Sprintf(" /proc/%d/fd/3", h.PID()), "")   // the directory that it reads
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestStartReplacesOuterMarks(t *testing.T) {
	o := newOwner(t)
	env := o.environment(Spec{Env: []string{"A=1", "ASYNC_REPL_JOB=outer", "ASYNC_REPL_JOB_OWNER=outer", "B=2"}, Mark: "inner"})
	want := "A=1 B=2 ASYNC_REPL_JOB=inner ASYNC_REPL_JOB_OWNER=" + o.token()
	if got := strings.Join(env, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStartErrorsNameTheCause(t *testing.T) {
	o := newOwner(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	pty := newPTY(t)
	tests := []struct {
		name string
		spec Spec
		is   error
		says string
	}{
		{"nothing", Spec{}, nil, "no program"},
		{"unknown program", Spec{Argv: []string{"no-such-program"}}, fs.ErrNotExist, "no-such-program: not found in PATH"},
		{"unknown path", Spec{Argv: []string{"/no/such/program"}}, fs.ErrNotExist, "/no/such/program"},
		{"not executable", Spec{Argv: []string{file}}, fs.ErrPermission, file},
		{"no directory", Spec{Argv: []string{"true"}, Dir: filepath.Join(dir, "none")}, fs.ErrNotExist, "none"},
		{"directory is a file", Spec{Argv: []string{"true"}, Dir: file}, syscall.ENOTDIR, file},
		{"terminal nowhere", Spec{Argv: []string{"true"}, TTY: pty, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}, nil, "none of its descriptors"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Env = testEnv
			_, err := o.Start(tt.spec)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got error %v, want one that is %v and says %q", err, tt.is, tt.says)
			}
		})
	}
}

func TestTerminalIsControlling(t *testing.T) {
	o := newOwner(t)
	j := onTTY(t, o, "job", `exec python3 -c 'if 1:
	import os, signal, time
	def resized(*_):
		os.write(1, b"resized %d %d\n" % os.get_terminal_size(os.open("/dev/tty", os.O_RDWR)))
		os._exit(3)
	signal.signal(signal.SIGWINCH, resized)
	print("size", *os.get_terminal_size(0), flush=True)
	while True: time.sleep(0.01)'`) // a signal just before a sleep is handled after it
	j.says(t, "size 80 24\n")
	must.Do(t, pty.Setsize(j.pty.Slave(), &pty.Winsize{Rows: 30, Cols: 100}))
	j.says(t, "resized 100 30\n")
	if got := ends(t, j.Handle); got.Code != 3 {
		t.Errorf("got %+v, want exit 3", got)
	}
}

func TestInterruptReachesTheForeground(t *testing.T) {
	o := newOwner(t)
	t.Run("foreground group", func(t *testing.T) {
		j := onTTY(t, o, "job", `trap 'echo the shell too' INT; set -m; python3 -c 'if 1:
	import time
	try:
		print("in the foreground")
		while True: time.sleep(0.01)
	except KeyboardInterrupt: raise SystemExit(9)
	'; echo continued $?; read`)
		j.says(t, "in the foreground\n")
		must.Do(t, j.Interrupt())
		j.says(t, "continued 9\n")
		if strings.Contains(j.output(), "too") {
			t.Errorf("the signal reached others: %q", j.output())
		}
	})
	t.Run("no terminal", func(t *testing.T) {
		tag := tag()
		j := onPipe(t, o, "job", `trap 'echo caught; exit 4' INT; sleep `+tag+` & wait`)
		grown(t, tag, 1)
		must.Do(t, j.Interrupt())
		if got := ends(t, j.Handle); got.Code != 4 {
			t.Errorf("got %+v, want exit 4", got)
		}
	})
}

// A child inherits no signal that this program was started with blocked or ignored.
func TestChildrenStartWithDefaultSignals(t *testing.T) {
	python := `import os, signal, sys
for s in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTOU, signal.SIGRTMIN + 1): signal.signal(s, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1])
os.execv(sys.argv[1], sys.argv[1:])`
	out, err := exec.Command("python3", append([]string{"-c", python}, self("part-defaults")...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n"
	if got := string(out); !strings.Contains(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// partDefaults prints how a child treats signals.
func partDefaults([]string) int {
	o, err := NewOwner(Config{})
	if err != nil {
		return 2
	}
	defer o.Shutdown()
	h, err := o.Start(Spec{Argv: []string{"cat", "/proc/self/status"}, Env: testEnv, Files: []*os.File{nil, os.Stdout, os.Stderr}})
	if err != nil {
		return 3
	}
	return h.Exit().Code
}

func threadCount(t *testing.T) int {
	tids := must.Get(procfs.Threads(os.Getpid()))(t)
	return len(tids)
}

// Waiting for a child takes no thread.
func TestWaitTakesNoThread(t *testing.T) {
	o := newOwner(t)
	before := threadCount(t)
	for range 100 {
		must.Get(o.Start(Spec{Argv: []string{"sleep", "1000"}, Env: testEnv}))(t)
	}
	if n := threadCount(t) - before; n > 20 {
		t.Errorf("100 children take %d threads", n)
	}
}
