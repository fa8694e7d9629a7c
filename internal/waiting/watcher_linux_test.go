package waiting

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/tty/ttytest"
)

// asker asks 60 questions, some of them after a pause or in two pieces. Its descriptor 3 gets a byte just before each
// read, so that a test knows of questions that are not printed, too.
const asker = `
import os, sys, termios, time
aloud = sys.argv[1] == "aloud"
if not aloud: # and no echo that would be output
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, mode)
for n in range(60):
    if n % 7 == 3: time.sleep(0.03)
    if aloud:
        os.write(1, b"Q%d" % n)
        if n % 5 == 1: time.sleep(0.025)
        os.write(1, b"? ")
    os.write(3, b".")
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 100)
    assert line == b"A%d\n" % n, line
print("all answered", flush=True)
os.read(0, 1)
`

// TestQuestionAnswerQuestion answers each question as soon as it is told of it. No news may come of a question that has
// been answered, and none may be missed.
func TestQuestionAnswerQuestion(t *testing.T) {
	for range 4 {
		ttytest.Load(t)
	}
	for _, how := range []string{"aloud", "silent"} {
		t.Run(how, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			p := start(t, []string{"python3", "-c", asker, how}, w)
			w.Close()
			told := p.watch(t)
			asked := 0
			for n := range 60 {
				got := nextWaiting(t, told)
				if k := countNow(t, r, &asked); k != n+1 {
					t.Fatalf("waiting at question %d when %d were asked", n, k)
				}
				if want := fmt.Sprintf("Q%d? ", n); how == "aloud" && !strings.HasSuffix(got.printed, want) {
					t.Fatalf("printed %q when told that it waits, want %q at its end", got.printed, want)
				}
				p.Send(t, fmt.Sprintf("A%d\n", n))
			}
			if got := nextWaiting(t, told); !strings.HasSuffix(got.printed, "all answered\r\n") {
				t.Errorf("told that it waits after %q", got.printed)
			}
		})
	}
}

// countNow adds to n the bytes that lie in the pipe r.
func countNow(t *testing.T, r *os.File, n *int) int {
	t.Helper()
	c, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Read(func(fd uintptr) bool {
		k, _ := unix.Read(int(fd), make([]byte, 1000))
		*n += max(k, 0)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return *n
}

// TestHalfAnAnswer sends an answer in two parts: between them the program waits, and it is said anew.
func TestHalfAnAnswer(t *testing.T) {
	p := start(t, []string{"cat"})
	told := p.watch(t)
	nextWaiting(t, told)
	p.Send(t, "half")
	if n := next(t, told); n.waiting {
		t.Fatalf("got %+v, want news that input was sent", n)
	}
	nextWaiting(t, told)
	p.Send(t, " a line\n")
	if n := nextWaiting(t, told); !strings.HasSuffix(n.printed, "half a line\r\nhalf a line\r\n") {
		t.Fatalf("waits before it has read: %q", n.printed)
	}
}

// TestSendDropsOlderScans: a scan that began before a Send, or during one, reports nothing after it.
func TestSendDropsOlderScans(t *testing.T) {
	p := start(t, []string{"sh", "-c", `stty raw -echo; echo ready; exec sleep 1000`})
	p.WaitPrinted(t, "ready")
	w := &Watcher{PTY: p.PTY, OnChange: func(Evidence, bool) { t.Error("reported") }}
	p.PTY.OnSend(w.inputSent)
	before, sending := w.sends()
	if sending {
		t.Error("a Send is in progress before the first")
	}
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan struct{})
	go func() { // ends with the Send, which cancel ends
		defer close(sent)
		p.PTY.Send(ctx, make([]byte, 1<<20)) // more than the terminal takes
	}()
	ttytest.WaitFor(t, "the Send", p.PTY.Sending)
	during, sending := w.sends()
	if !sending {
		t.Error("no Send is in progress during one")
	}
	if w.report(Evidence{Kind: Line}, waits, before, time.Time{}) {
		t.Error("seen before a Send and reported during it")
	}
	cancel()
	<-sent
	for name, epoch := range map[string]uint64{"before": before, "during": during} {
		if w.report(Evidence{Kind: Line}, waits, epoch, time.Time{}) {
			t.Errorf("seen %s a Send and reported after it", name)
		}
	}
}

// TestSendTakesNewsBack: when Send is called the news is taken back before the program can see the input.
func TestSendTakesNewsBack(t *testing.T) {
	p := start(t, []string{"cat"})
	told := p.watch(t)
	nextWaiting(t, told)
	p.Send(t, "x")
	select {
	case n := <-told:
		if n.waiting {
			t.Fatalf("got %+v, want it taken back", n)
		}
	default:
		t.Fatal("Send has returned, and the news stands")
	}
}

// TestWaitEndsUntold: what ends a wait without input or output is noticed too.
func TestWaitEndsUntold(t *testing.T) {
	p := start(t, []string{"python3", "-c", `
import os, signal, time
class Out(Exception): pass
def out(*a): raise Out
signal.signal(signal.SIGUSR1, out)
try: os.read(0, 1)
except Out: time.sleep(1000)
`})
	told := p.watch(t)
	ev := nextWaiting(t, told)
	p.Signal(t, syscall.SIGUSR1)
	if n := next(t, told); n.waiting || ev.PID != p.PID {
		t.Fatalf("got %+v after %+v, want it taken back", n, ev)
	}
}

// TestBackgroundOutput: a program that asks is seen while another prints all the time, and its prompt is told anew.
func TestBackgroundOutput(t *testing.T) {
	p := start(t, []string{"bash", "-c", `while sleep 0.005; do echo .; done & read x; kill $!; echo "got $x"; read y`})
	told := p.watch(t)
	nextWaiting(t, told)
	p.Send(t, "it\n")
	for {
		if n := nextWaiting(t, told); strings.Contains(n.printed, "got it") {
			break
		}
	}
}

// TestWaitsLate: a program that has slept for long, and one in a child that is started late, are seen.
func TestWaitsLate(t *testing.T) {
	for name, script := range map[string]string{
		"itself":  `sleep 0.5; read x`,
		"a child": `sleep 0.5; (cat; :)`,
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, []string{"bash", "-c", script})
			nextWaiting(t, p.watch(t))
		})
	}
}

// TestManyThreads: the reader is the last of many threads.
func TestManyThreads(t *testing.T) {
	p := start(t, []string{"python3", "-c", `
import threading, os, time
for i in range(128): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
def late():
    print("ready", flush=True)
    while True: time.sleep(0.2); os.read(0, 9)
threading.Thread(target=late).start()`})
	told := p.watch(t)
	n := nextWaiting(t, told)
	p.Send(t, "x\n")
	if m := nextWaiting(t, told); m.TID != n.TID {
		t.Errorf("got thread %d, then %d", n.TID, m.TID)
	}
}

// TestManyProcesses: the reader is the last of more processes than have procfs.Clocks.
func TestManyProcesses(t *testing.T) {
	p := start(t, []string{"python3", "-c", fmt.Sprintf(`
import os, sys, time
for i in range(%d):
    if os.fork() == 0:
        time.sleep(1000)
        os._exit(0)
if os.fork() == 0:
    while True: time.sleep(0.2); os.read(0, 9)
time.sleep(1000)`, 130)})
	told := p.watch(t)
	n := nextWaiting(t, told)
	p.Send(t, "x\n")
	if m := nextWaiting(t, told); m.PID != n.PID || m.PID == p.PID {
		t.Errorf("got process %d, then %d; the leader is %d", n.PID, m.PID, p.PID)
	}
}

// TestWatchKeepsNoDescriptor: what Run has opened it closes.
func TestWatchKeepsNoDescriptor(t *testing.T) {
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	var before int
	t.Run("watch", func(t *testing.T) {
		p := start(t, []string{"bash", "-c", `sleep 1000 & cat & sleep 1000 & read x; read y`})
		before = open()
		t.Run("run", func(t *testing.T) {
			told := p.watch(t)
			nextWaiting(t, told)
			p.Send(t, "x\n")
			nextWaiting(t, told)
		})
		if after := open(); after != before {
			t.Errorf("%d descriptors are open, %d were before", after, before)
		}
	})
}
