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

	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
)

// asker asks as many questions as its second argument says, some of them after a pause or in two
// pieces. It writes a byte to descriptor 3 just before each read, so that a test learns of
// questions that are not printed, too.
const asker = `
import os, sys, termios, time
aloud = sys.argv[1] == "aloud"
if not aloud: # and no echo that would be output
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, mode)
for n in range(int(sys.argv[2])):
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

// Each question is answered as soon as it is reported. No question is reported after its answer,
// and none is missed.
func TestEachQuestionIsReportedOnceAndBeforeItsAnswer(t *testing.T) {
	questions := 60
	switch {
	case testing.Short():
		questions = 6
	case racetest.Enabled: // it burns all processors, and .ci/long asks all questions without the detector
		questions = 15
	}
	if !testing.Short() {
		for range 4 {
			ttytest.Load(t)
		}
	}
	for _, how := range []string{"aloud", "silent"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r, w := must.Get2(os.Pipe())(t)
			defer r.Close()
			p := start(t, []string{"python3", "-c", asker, how, fmt.Sprint(questions)}, w)
			w.Close()
			reported := p.watch(t)
			asked := 0
			for n := range questions {
				got := nextWaiting(t, reported)
				if k := countNow(t, r, &asked); k != n+1 {
					t.Fatalf("waiting at question %d when %d were asked", n, k)
				}
				if want := fmt.Sprintf("Q%d? ", n); how == "aloud" && !strings.HasSuffix(got.printed, want) {
					t.Fatalf("printed %q when it was reported to wait, want %q at its end", got.printed, want)
				}
				p.Send(t, fmt.Sprintf("A%d\n", n))
			}
			if got := nextWaiting(t, reported); !strings.HasSuffix(got.printed, "all answered\r\n") {
				t.Errorf("reported to wait after %q", got.printed)
			}
		})
	}
}

// countNow adds to n the bytes that are buffered in the pipe r.
func countNow(t *testing.T, r *os.File, n *int) int {
	t.Helper()
	c := must.Get(r.SyscallConn())(t)
	must.Do(t, c.Read(func(fd uintptr) bool {
		k, _ := unix.Read(int(fd), make([]byte, 1000))
		*n += max(k, 0)
		return true
	}))
	return *n
}

// Between two parts of an answer the program waits, and it is reported again.
func TestHalfAnAnswerIsWaitedAfter(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"cat"})
	reported := p.watch(t)
	nextWaiting(t, reported)
	p.Send(t, "half")
	if n := next(t, reported); n.waiting {
		t.Fatalf("got %+v, want that input was sent", n)
	}
	nextWaiting(t, reported)
	p.Send(t, " a line\n")
	if n := nextWaiting(t, reported); !strings.HasSuffix(n.printed, "half a line\r\nhalf a line\r\n") {
		t.Fatalf("waits before it has read: %q", n.printed)
	}
}

// A scan that began before a Send, or during one, reports nothing after it.
func TestSendDropsOlderScans(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"sh", "-c", `stty raw -echo; echo ready; exec sleep 1000`})
	p.WaitPrinted(t, "ready")
	w := &Watcher{Source: p.PTY, OnChange: func(Evidence, bool) { t.Error("reported") }}
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
	polltest.Until(t, "the Send", p.PTY.Sending)
	during, sending := w.sends()
	if !sending {
		t.Error("no Send is in progress during one")
	}
	if w.report(Evidence{Kind: kindLine}, waits, before, time.Time{}) {
		t.Error("seen before a Send and reported during it")
	}
	cancel()
	<-sent
	for name, epoch := range map[string]uint64{"before": before, "during": during} {
		if w.report(Evidence{Kind: kindLine}, waits, epoch, time.Time{}) {
			t.Errorf("seen %s a Send and reported after it", name)
		}
	}
}

// Send retracts the report before the program can see the input.
func TestSendRetractsTheReport(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"cat"})
	reported := p.watch(t)
	nextWaiting(t, reported)
	p.Send(t, "x")
	select {
	case n := <-reported:
		if n.waiting {
			t.Fatalf("got %+v, want it retracted", n)
		}
	default:
		t.Fatal("Send has returned, and the report stands")
	}
}

// The end of a wait is noticed even without input or output.
func TestSilentEndOfAWaitIsReported(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"python3", "-c", `
import os, signal, time
class Out(Exception): pass
def out(*a): raise Out
signal.signal(signal.SIGUSR1, out)
try: os.read(0, 1)
except Out: time.sleep(1000)
`})
	reported := p.watch(t)
	ev := nextWaiting(t, reported)
	p.Signal(t, syscall.SIGUSR1)
	if n := next(t, reported); n.waiting || ev.pid != p.PID {
		t.Fatalf("got %+v after %+v, want it retracted", n, ev)
	}
}

// A program that asks is seen while another prints all the time, and its next prompt is reported
// again.
func TestQuestionBesideOutputIsReported(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"bash", "-c", `while sleep 0.005; do echo .; done & read x; kill $!; echo "got $x"; read y`})
	reported := p.watch(t)
	nextWaiting(t, reported)
	p.Send(t, "it\n")
	for {
		if n := nextWaiting(t, reported); strings.Contains(n.printed, "got it") {
			break
		}
	}
}

// A program that has slept for long is seen, and so is a child that is started late.
func TestLateWaitIsReported(t *testing.T) {
	for name, script := range map[string]string{
		"itself":  `sleep 0.5; read x`,
		"a child": `sleep 0.5; (cat; :)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, []string{"bash", "-c", script})
			nextWaiting(t, p.watch(t))
		})
	}
}

func TestReaderAmongManyThreadsIsReported(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"python3", "-c", `
import threading, os, time
for i in range(128): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
def late():
    print("ready", flush=True)
    while True: time.sleep(0.2); os.read(0, 9)
threading.Thread(target=late).start()`})
	reported := p.watch(t)
	n := nextWaiting(t, reported)
	p.Send(t, "x\n")
	if m := nextWaiting(t, reported); m.tid != n.tid {
		t.Errorf("got thread %d, then %d", n.tid, m.tid)
	}
}

// The tree has more processes than get clocks of their own.
func TestReaderAmongManyProcessesIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 4 s: a tree without clocks is scanned once a second")
	}
	t.Parallel()
	p := start(t, []string{"python3", "-c", `
import os, sys, time
for i in range(130):
    if os.fork() == 0:
        time.sleep(1000)
        os._exit(0)
if os.fork() == 0:
    while True: time.sleep(0.2); os.read(0, 9)
time.sleep(1000)`})
	reported := p.watch(t)
	n := nextWaiting(t, reported)
	p.Send(t, "x\n")
	if m := nextWaiting(t, reported); m.pid != n.pid || m.pid == p.PID {
		t.Errorf("got process %d, then %d; the leader is %d", n.pid, m.pid, p.PID)
	}
}

// A watcher closes what it has opened.
func TestWatchKeepsNoDescriptor(t *testing.T) {
	open := func() int {
		fds := must.Get(os.ReadDir("/proc/self/fd"))(t)
		return len(fds)
	}
	var before int
	t.Run("watch", func(t *testing.T) {
		p := start(t, []string{"bash", "-c", `sleep 1000 & cat & sleep 1000 & read x; read y`})
		Sees(p.PID) // the first read of /proc opens the descriptors that procfs keeps in reserve
		before = open()
		t.Run("run", func(t *testing.T) {
			reported := p.watch(t)
			nextWaiting(t, reported)
			p.Send(t, "x\n")
			nextWaiting(t, reported)
		})
		if after := open(); after != before {
			t.Errorf("%d descriptors are open, %d were before", after, before)
		}
	})
}
