package waiting

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

func TestWaiting(t *testing.T) {
	bash := func(script string) []string { return []string{"bash", "-c", script} }
	python := func(code string) []string { return []string{"python3", "-c", code} }
	for name, c := range map[string]struct {
		argv    []string
		program string
		kind    string
		child   bool // a process other than the leader waits
		thread  bool // a thread other than the first waits
	}{
		"read":             {argv: bash(`read x`), program: "bash", kind: kindLine},
		"read -s":          {argv: bash(`read -s -p 'Password: ' x`), program: "bash", kind: kindSecret},
		"read -n1":         {argv: bash(`read -n1 x`), program: "bash", kind: kindKey},
		"read -s -n1":      {argv: bash(`read -s -n1 x`), program: "bash", kind: kindKey},
		"cat":              {argv: []string{"cat"}, program: "cat", kind: kindLine},
		"raw":              {argv: bash(`stty raw; cat; :`), program: "cat", kind: kindKey, child: true},
		"of a pipeline":    {argv: bash(`cat | sort`), program: "cat", kind: kindLine, child: true},
		"from /dev/tty":    {argv: bash(`cat < /dev/tty; :`), program: "cat", kind: kindLine, child: true},
		"/dev/tty from fd": {argv: bash(`exec 7<>/dev/tty </dev/null; read -u 7 x`), program: "bash", kind: kindLine},
		"beside others":    {argv: bash(`sleep 1000 & read x`), program: "bash", kind: kindLine},
		"job control":      {argv: bash(`set -m; sleep 1000 & cat; :`), program: "cat", kind: kindLine, child: true},
		"input() in child": {argv: bash(`python3 -c 'input("? ")'; :`), program: "python3", kind: kindLine, child: true},
		"getpass":          {argv: python(`import getpass; getpass.getpass()`), program: "python3", kind: kindSecret},
		"getpass, no stdin": {
			argv: bash(`python3 -c 'import getpass; getpass.getpass()' < /dev/null; :`), program: "python3", kind: kindSecret, child: true},
		"readv":        {argv: python(`import os; os.readv(0, [bytearray(9)])`), program: "python3", kind: kindLine},
		"setsid":       {argv: bash(`setsid -w cat; :`), program: "cat", kind: kindLine, child: true},
		"setsid, sole": {argv: []string{"setsid", "-w", "cat"}, program: "cat", kind: kindLine, child: true},
		"thread": {argv: python(`import threading, os; threading.Thread(target=os.read, args=(0, 9)).start()`),
			program: "python3", kind: kindLine, thread: true},
		"thread of many": {argv: python(`import threading, os, time
for i in range(100): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
threading.Thread(target=os.read, args=(0, 9)).start()`), program: "python3", kind: kindLine, thread: true},
		"first thread gone": {argv: python(`import threading, os, ctypes
threading.Thread(target=os.read, args=(0, 9)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)`), program: "python3", kind: kindLine, thread: true},
		"name with brackets": {argv: bash(`exec -a 'x' bash -c 'printf "a) R (b" > /proc/self/comm; read x'`), program: "a) R (b", kind: kindLine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.argv)
			var ev Evidence
			polltest.Until(t, "evidence", func() (ok bool) { ev, ok = scanOnce(p.PTY, p.Tree()); return ok })
			if ev.program != c.program || ev.Kind != c.kind || ev.inferred {
				t.Errorf("got %+v, want program %q, kind %q", ev, c.program, c.kind)
			}
			if child := ev.pid != p.PID; child != c.child {
				t.Errorf("got pid %d, leader %d; want a child: %t", ev.pid, p.PID, c.child)
			}
			if thread := ev.tid != ev.pid; thread != c.thread {
				t.Errorf("got thread %d of %d; want another than the first: %t", ev.tid, ev.pid, c.thread)
			}
		})
	}
}

// TestNotWaiting holds programs in a state that could be taken for waiting and is not. Each prints
// "ready" once it is in that state or about to be.
func TestNotWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		script  string
		settled string // a process of this name and state is in the tree
		waited  bool   // before it was ready, so a report of a wait is no error
	}{
		"sleeps":                  {`echo ready; exec sleep 1000`, "sleep S", false},
		"computes":                {`echo ready; while :; do :; done`, "bash R", false},
		"reads a pipe":            {`echo ready; sleep 1000 | cat`, "cat S", false},
		"reads a file of its own": {`mkfifo $0/f; echo ready; cat <> $0/f; :`, "cat S", false},
		"background, no terminal": {`cat & echo ready; sleep 1000; :`, "sleep S", false},
		"background, stopped":     {`set -m; cat & echo ready; sleep 1000; :`, "cat T", false},
		"reads, but not in the foreground any more": {`exec python3 -c '
import os, signal, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if not pid:
    os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid())
    os.execlp("cat", "cat")
while "(cat) S" not in open("/proc/%d/stat" % pid).read(): time.sleep(0.001)
os.tcsetpgrp(0, os.getpid())
print("ready"); time.sleep(1000)'`, "cat S", true},
		"reads another's terminal": {`python3 -c 'import pty, os; print("ready"); os.read(pty.openpty()[1], 9)'; :`, "python3 S", false},
		"waits for its own terminal by /dev/tty": {
			`echo ready; exec python3 -c 'import pty, os, time; pty.fork() or os.read(os.open("/dev/tty", 2), 9); time.sleep(1000)'`, "python3 S", false},
		"waits for a child": {`echo ready; sleep 1000 & wait`, "sleep S", false},
		"only holds it":     {`echo ready; setsid -w sleep 1000; :`, "sleep S", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, []string{"bash", "-c", c.script, t.TempDir()})
			var reported <-chan change
			if !c.waited {
				reported = p.watch(t)
			}
			p.WaitPrinted(t, "ready")
			polltest.Until(t, c.settled, func() bool {
				for _, pid := range p.Tree() {
					if s, err := procfs.InspectThread(pid, pid); err == nil && fmt.Sprintf("%s %c", s.Program, s.State) == c.settled {
						return true
					}
				}
				return false
			})
			if c.waited {
				reported = p.watch(t)
			}
			for range 2 * manyScans() {
				if ev, ok := scanOnce(p.PTY, p.Tree()); ok {
					t.Fatalf("taken for waiting: %+v", ev)
				}
			}
			select {
			case n := <-reported:
				if n.waiting || n.Reads() {
					t.Fatalf("reported: %+v", n)
				}
			default:
			}
		})
	}
}

// A background program that reads the terminal is stopped, and named until it ends or continues in
// the foreground.
func TestBackgroundReaderIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		ends   bool // and leaves none stopped; otherwise it is in the foreground then, and waits
	}{
		"killed":    {`set -m; cat & sleep 1000`, true},
		"of many":   {`set -m; (trap '' TTIN; sleep 1000) & cat & sleep 1000`, true},
		"continued": {`set -m; trap fg USR1; cat & while :; do sleep 0.05; done`, false},
		"that its parent does not know as a job": {`
python3 -c 'import os; os.setpgid(0, 0); os.execlp("cat", "cat")' </dev/tty & sleep 1000`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, []string{"bash", "-c", c.script})
			reported := p.watch(t)
			n := next(t, reported)
			for n.Reads() {
				n = next(t, reported)
			}
			if want := fmt.Sprintf("cat (pid %d)", n.pid); n.waiting || n.Stopped() != want || ttytest.State(n.pid) != "T" {
				t.Fatalf("got %+v, want that %s was stopped", n, want)
			}
			if c.ends {
				unix.Kill(n.pid, unix.SIGKILL)
				if n := next(t, reported); n.Evidence != (Evidence{}) {
					t.Errorf("got %+v, want that no program was stopped", n)
				}
				return
			}
			p.Signal(t, syscall.SIGUSR1)
			if m := nextWaiting(t, reported); m.pid != n.pid || m.Stopped() != "" {
				t.Errorf("got %+v, want that %d waits", m, n.pid)
			}
		})
	}
}

func TestStoppedReaderDoesNotWait(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"cat"})
	reported := p.watch(t)
	pid := nextWaiting(t, reported).pid
	unix.Kill(pid, unix.SIGSTOP)
	if n := next(t, reported); n.waiting {
		t.Fatalf("a stopped program waits: %+v", n)
	}
	p.Send(t, "typed ahead\n")
	if ev, ok := scanOnce(p.PTY, p.Tree()); ok {
		t.Fatalf("a stopped program waits: %+v", ev)
	}
	unix.Kill(pid, unix.SIGCONT)
	if n := nextWaiting(t, reported); !strings.HasSuffix(n.printed, "typed ahead\r\ntyped ahead\r\n") {
		t.Fatalf("waits again before it has read: %+v", n)
	}
}

// A program of the lowest priority is scanned again and again after each answer. Whenever a scan
// says that it waits, it must have taken every answer. FIONREAD counts neither an end of file nor a
// key of which the terminal makes a signal.
func TestTimedAnswerThatIsNotReadYetEndsTheWait(t *testing.T) {
	if testing.Short() {
		t.Skip("its program runs only if nothing else does")
	}
	const answers = 50
	const counts = "import os, signal\nn = 0\ndef count(*_):\n    global n\n    n += 1\n    os.write(1, b'<%d>' % n)\n"
	const reads = counts + "os.write(1, b'<0>')\nwhile True:\n    os.read(0, 100)\n    count()\n"
	const handles = counts + "signal.signal(signal.SIGINT, count)\nos.write(1, b'<0>')\nwhile True: os.read(0, 100)\n"
	for name, c := range map[string]struct{ program, answer string }{
		"line":        {reads, "x\n"},
		"end of file": {reads, "\x04"},
		"interrupt":   {handles, "\x03"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, []string{"taskset", "-c", "0", "chrt", "-i", "0", "python3", "-c", c.program})
			tree := []int{p.PID}
			p.WaitPrinted(t, "<0>")
			ttytest.Load(t, "taskset", "-c", "0")
			for n := range answers {
				polltest.Until(t, "evidence", func() bool { _, ok := scanOnce(p.PTY, tree); return ok })
				if got, want := p.Printed(), fmt.Sprintf("<%d>", n); !strings.HasSuffix(got, want) {
					t.Fatalf("said to wait before it has printed %s; printed %q", want, got)
				}
				p.Send(t, c.answer)
			}
		})
	}
}

// It is so for a pipe, too. The program counts its answers in a file, because its output is lost.
func TestTimedAnswerOnAPipeThatIsNotReadYetEndsTheWait(t *testing.T) {
	if testing.Short() {
		t.Skip("its program runs only if nothing else does")
	}
	const answers = 50
	count := filepath.Join(t.TempDir(), "count")
	p, pipe := startPiped(t, `exec taskset -c 0 chrt -i 0 python3 -c '
import os, sys
count = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
n = 0
while True:
    os.pwrite(count, b"%d" % n, 0)
    os.read(0, 100)
    n += 1
' `+count)
	ttytest.Load(t, "taskset", "-c", "0")
	for n := range answers {
		polltest.Until(t, "evidence", func() bool { _, ok := scanOnce(pipe, p.Tree()); return ok })
		if got, _ := os.ReadFile(count); string(got) != fmt.Sprint(n) {
			t.Fatalf("said to wait for answer %d after %q", n, got)
		}
		must.Do(t, pipe.Send(t.Context(), "x\n", false))
	}
}

// Nothing is seen of a process that does not exist.
func TestSees(t *testing.T) {
	if !Sees(os.Getpid()) {
		t.Error("the kernel does not even show this process")
	}
	if Sees(1<<22 + 1) { // no process has such a number
		t.Error("what is not there is seen")
	}
}
