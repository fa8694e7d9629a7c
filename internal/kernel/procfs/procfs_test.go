//go:build linux

package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// start starts bash with a script that ends when its input does, and returns once it has printed a
// line.
func start(t *testing.T, script string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatalf("%s printed nothing: %v", script, err)
	}
	return cmd
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		name, stat     string
		ended, ending  bool
		exiting        bool
		stopped, wrong bool
		by             syscall.Signal
	}{
		{name: "runs", stat: "R 1 10 11 34816 10 4194560 0 0 0 0 1 2 3 4 20 0 1 0 5000 0 100"},
		{name: "exits", stat: "R 1 10 11 34816 10 4194564 0 0 0 0 1 2 3 4 20 0 1 0 5000 0 100", ending: true, exiting: true},
		{name: "dumps core", stat: "R 1 10 11 34816 10 4195840 0 0 0 0 1 2 3 4 20 0 1 0 5000 0 100", exiting: true},
		{name: "first thread exits", stat: "R 1 10 11 34816 10 4194564 0 0 0 0 1 2 3 4 20 0 2 0 5000 0 100", exiting: true},
		{name: "zombie", stat: "Z 1 10 11 34816 -1 4194564 0 0 0 0 1 2 3 4 20 0 1 0 5000 0 100", ended: true, ending: true, exiting: true, stopped: true},
		{name: "zombie with running threads", stat: "Z 1 10 11 34816 -1 4194564 0 0 0 0 1 2 3 4 20 0 2 0 5000 0 100", exiting: true},
		{name: "stopped", stat: "T 1 10 11 34816 10 4194560 0 0 0 0 1 2 3 4 20 0 1 0 5000 0 100" + strings.Repeat(" 0", 27) + " 19", stopped: true, by: syscall.SIGSTOP},
		{name: "stopped, cut short", stat: "T 1 10 11 34816 10 4194560 0 0 0 0 1 2 3 4 20 0 1 0 5000 0 100", wrong: true},
		{name: "cut short", stat: "R 1 10 11 34816 10 4194560 0 0 0 0 1 2 3 4 20 0 1 0 5000 0", wrong: true},
		{name: "empty", wrong: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, ok := parseStat(10, []byte("10 (a b) R) "+c.stat+"\n"))
			if ok == c.wrong {
				t.Fatalf("got %+v, %t", s, ok)
			}
			if c.wrong {
				return
			}
			if s.Ended() != c.ended || s.Ending() != c.ending || s.Exiting() != c.exiting || s.Stopped() != c.stopped {
				t.Errorf("ended %t, ending %t, exiting %t, stopped %t", s.Ended(), s.Ending(), s.Exiting(), s.Stopped())
			}
			want := Stat{Process: Process{PID: 10, Program: "a b) R", Start: 5000, Parent: 1, Group: 10}, Session: 11, Terminal: 34816,
				State: s.State, StopSignal: c.by, Threads: s.Threads, exiting: s.exiting, killed: s.killed, CPU: 100 * time.Millisecond, Memory: 100 * int64(os.Getpagesize())}
			if s != want {
				t.Errorf("got %+v, want %+v", s, want)
			}
		})
	}
}

func TestInspectShowsAProcess(t *testing.T) {
	cmd := start(t, `echo; read x`)
	pid := cmd.Process.Pid
	s := must.Get(Inspect(pid))(t)
	if s.PID != pid || s.Program != "bash" || s.Parent != os.Getpid() || s.Group != pid || s.Start == 0 || s.Threads != 1 || s.Memory == 0 {
		t.Errorf("got %+v", s)
	}
	if thread := must.Get(InspectThread(pid, pid))(t); thread.Process != s.Process {
		t.Errorf("the thread is %+v, the process %+v", thread.Process, s.Process)
	}
	all := must.Get(All())(t)
	for _, want := range []int{1, os.Getpid(), pid} {
		if !slices.ContainsFunc(all, func(s Stat) bool { return s.PID == want }) {
			t.Errorf("%d is not among all processes", want)
		}
	}
}

// A child is listed all the while, also when the thread that started it ends: the child is another
// thread's then.
func TestChildrenOfThreadsThatEnd(t *testing.T) {
	cmd := exec.Command("python3", "-c", `
import subprocess, sys, threading
def start(): print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
for line in sys.stdin:
    threading.Thread(target=start).start()`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in := must.Get(cmd.StdinPipe())(t)
	out := bufio.NewScanner(must.Get(cmd.StdoutPipe())(t))
	must.Do(t, cmd.Start())
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the children too
		cmd.Wait()
	}()
	var started []int
	for range 30 {
		io.WriteString(in, "\n")
		if !out.Scan() {
			t.Fatal("no child was started")
		}
		started = append(started, must.Get(strconv.Atoi(out.Text()))(t))
		for range 20 {
			listed := must.Get(Children(cmd.Process.Pid, 0))(t)
			for _, pid := range started {
				if !slices.Contains(listed, pid) {
					t.Fatalf("child %d of %d is not among %v", pid, len(started), listed)
				}
			}
		}
	}
}

func TestChildrenAndThreads(t *testing.T) {
	cmd := start(t, `sleep 1000 & sleep 1000 & echo; wait`)
	pid := cmd.Process.Pid
	for _, threads := range []int{0, 1} {
		if got := must.Get(Children(pid, threads))(t); len(got) != 2 {
			t.Errorf("children %v, want two", got)
		}
	}
	if a, b := must.Get(childrenOf(pid))(t), must.Get(Children(pid, 1))(t); !slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))) {
		t.Errorf("among all processes the children are %v, by the kernel's list %v", a, b)
	}
	if got := must.Get(Threads(pid))(t); !slices.Equal(got, []int{pid}) {
		t.Errorf("threads %v of a process with one", got)
	}
	if got := must.Get(Threads(os.Getpid()))(t); len(got) < 2 || !slices.Contains(got, os.Getpid()) {
		t.Errorf("threads %v of a Go program", got)
	}
	own := must.Get(Children(os.Getpid(), 0))(t) // its first thread need not be the one that started it
	if !slices.Contains(own, pid) {
		t.Errorf("own children %v, want %d among them", own, pid)
	}
}

func TestLookupEnv(t *testing.T) {
	cmd := start(t, `echo; read x`, "MARK=this=that", "EMPTY=")
	for name, want := range map[string]string{"MARK": "this=that true", "EMPTY": " true", "MAR": " false", "this": " false"} {
		value, found, err := LookupEnv(cmd.Process.Pid, name)
		if got := fmt.Sprint(value, " ", found); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestFilesHaveTheIdentityOfStat(t *testing.T) {
	path := t.TempDir() + "/f"
	cmd := start(t, `exec 7>"$FILE"; echo; read x`, "FILE="+path)
	var st unix.Stat_t
	must.Do(t, unix.Stat(path, &st))
	if got := must.Get(Files(cmd.Process.Pid))(t); !slices.Contains(got, Identify(&st)) {
		t.Errorf("files %v, want %v among them", got, Identify(&st))
	}
	if got := must.Get(Descriptors(cmd.Process.Pid, cmd.Process.Pid))(t); !slices.Contains(got, 7) {
		t.Errorf("descriptors %v, want 7 among them", got)
	}
}

func TestDisposition(t *testing.T) {
	cmd := start(t, `trap "" TERM; trap : USR1; echo; while :; do read x || exit; done`)
	s := must.Get(Inspect(cmd.Process.Pid))(t)
	for sig, want := range map[syscall.Signal]Disposition{
		syscall.SIGTERM: {Ignored: true}, syscall.SIGUSR1: {Caught: true}, syscall.SIGUSR2: {}, syscall.SIGXFSZ: {},
	} {
		if got, err := s.Disposition(sig); err != nil || got != want {
			t.Errorf("%v: got %+v, %v; want %+v", sig, got, err, want)
		}
	}
	s.Signal(syscall.SIGSTOP)
	polltest.Until(t, "the stop", func() bool { return must.Get(Inspect(s.PID))(t).Stopped() })
	s.Signal(syscall.SIGUSR1)
	if got, err := s.Disposition(syscall.SIGUSR1); err != nil || got != (Disposition{Caught: true, Pending: true}) {
		t.Errorf("a signal that a stopped process has not taken: %+v, %v", got, err)
	}
	s.Start++
	if _, err := s.Disposition(syscall.SIGTERM); err != ErrGone {
		t.Errorf("of another process with this pid: %v, want ErrGone", err)
	}
}

// A process is doomed if a signal that ends it is pending, unless it is stopped and can be saved.
func TestDoomed(t *testing.T) {
	cmd := start(t, `trap "" TERM; trap : USR1; echo; while :; do read x || exit; done`)
	s := must.Get(Inspect(cmd.Process.Pid))(t)
	s.Signal(syscall.SIGSTOP)
	for !s.Stopped() {
		s = must.Get(Inspect(s.PID))(t)
	}
	running := s
	running.State = 'S' // the signals that a stopped process keeps are seen as those of a busy one
	for _, step := range []struct {
		sig  syscall.Signal
		want bool
	}{{0, false}, {syscall.SIGTERM, false}, {syscall.SIGUSR1, false}, {syscall.SIGWINCH, false}, {syscall.SIGUSR2, true}} {
		s.Signal(step.sig)
		if s.Doomed() || running.Doomed() != step.want {
			t.Errorf("after %v: doomed %v while stopped, %v while not; want %v", step.sig, s.Doomed(), running.Doomed(), step.want)
		}
	}
}

// The number of open files is that of the list of descriptors, if the kernel knows it.
func TestCountFiles(t *testing.T) {
	cmd := start(t, `exec 7</dev/null; echo; while :; do read x || exit; done`)
	pid := cmd.Process.Pid
	if got, want := CountFiles(pid), len(must.Get(Descriptors(pid, pid))(t)); got != 0 && got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if got := CountFiles(1 << 30); got != 0 {
		t.Errorf("of no process: %d", got)
	}
}

func TestSignalReachesOnlyThisProcess(t *testing.T) {
	cmd := start(t, `trap 'exit 7' USR1; echo; while :; do read x || exit; done`)
	p := must.Get(Inspect(cmd.Process.Pid))(t).Process
	other := p
	other.Start++
	if err := other.Signal(syscall.SIGKILL); err != ErrGone {
		t.Errorf("to an earlier process of this pid: %v, want ErrGone", err)
	}
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit status %d, want 7 of the trap", got)
	}
	if err := p.Signal(syscall.SIGUSR1); err != ErrGone {
		t.Errorf("after its end: %v, want ErrGone", err)
	}
}

// Every function says ErrGone, and nothing else does, if the process has ended.
func TestGoneIsAnError(t *testing.T) {
	cmd := start(t, `echo; read x`)
	pid := cmd.Process.Pid
	clock := clock{pid: pid}
	thread := must.Get(NewThreadClock(pid, pid))(t)
	syscall.Kill(pid, syscall.SIGKILL)
	cmd.Wait()
	for name, ask := range map[string]func() error{
		"Inspect":       func() error { _, err := Inspect(pid); return err },
		"InspectThread": func() error { _, err := InspectThread(pid, pid); return err },
		"Children":      func() error { _, err := Children(pid, 0); return err },
		"Children of 1": func() error { _, err := Children(pid, 1); return err },
		"Threads":       func() error { _, err := Threads(pid); return err },
		"Descriptors":   func() error { _, err := Descriptors(pid, pid); return err },
		"Files":         func() error { _, err := Files(pid); return err },
		"LookupEnv":     func() error { _, _, err := LookupEnv(pid, "PATH"); return err },
		"DispositionOf": func() error { _, err := DispositionOf(pid, syscall.SIGINT); return err },
		"CPUTime":       func() error { _, err := CPUTime(pid); return err },
		"clock":         func() error { _, err := clock.ran(); return err },
		"ThreadClock":   func() error { _, err := thread.Ran(); return err },
		"new clock":     func() error { _, err := NewThreadClock(pid, pid); return err },
	} {
		if err := ask(); err != ErrGone {
			t.Errorf("%s: %v, want ErrGone", name, err)
		}
	}
}

// A process that we have no permission to read is not gone.
func TestPermissionIsNotGone(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can read every process")
	}
	if _, err := Files(1); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("files of process 1: %v, want a permission error", err)
	}
}
