//go:build unix

package people

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/pythontest"
	"asyncrepl/internal/text/escape"
)

// The tests here that start processes run alone: the engines of other tests would take them for
// orphans of their jobs.

// A seat is a person's terminal with an attach that runs there.
type seat struct {
	t      *testing.T
	pty    *tty.PTY
	before tty.Mode
	cmd    *exec.Cmd

	mu    sync.Mutex
	shown bytes.Buffer
}

// attach starts attach at a terminal, and returns once it shows the job.
func (w *world) attach(r *remote, id string, rows, cols uint16) *seat {
	t := w.t
	t.Helper()
	s := &seat{t: t, pty: must.Get(tty.Open(rows, cols))(t)}
	t.Cleanup(s.pty.Close)
	s.before = must.Get(s.pty.Mode())(t)
	var reading sync.WaitGroup
	reading.Go(func() { // joined at the end of the test; ends with the terminal
		b := make([]byte, 4096)
		for {
			n, err := s.pty.Master().Read(b)
			s.mu.Lock()
			s.shown.Write(b[:n])
			s.mu.Unlock()
			if errors.Is(err, fs.ErrClosed) {
				return
			}
		}
	})
	t.Cleanup(reading.Wait)
	t.Cleanup(s.pty.Close) // cleanups run in reverse: this one ends the reading
	s.cmd = w.command("attach", id)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.pty.Slave(), s.pty.Slave(), s.pty.Slave()
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, s.cmd.Start())
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	s.shows("Ctrl-] detaches.")
	polltest.Until(t, "the job's terminal has the size of the window", func() bool { return r.size(id) == fmt.Sprintf("%dx%d", rows, cols) })
	return s
}

// text returns what was written to the terminal.
func (s *seat) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// shows waits until a text was written to the terminal.
func (s *seat) shows(text string) {
	s.t.Helper()
	polltest.Check(s.t, func() error {
		if got := s.text(); !strings.Contains(got, text) {
			return fmt.Errorf("the terminal shows %q and not %q", got, text)
		}
		return nil
	})
}

// types types at the terminal.
func (s *seat) types(keys string) {
	s.t.Helper()
	must.Get(s.pty.Master().Write([]byte(keys)))(s.t)
}

// restored checks that the terminal has the mode that it had.
func (s *seat) restored() {
	s.t.Helper()
	polltest.Check(s.t, func() error {
		if mode, err := s.pty.Mode(); err != nil || mode != s.before {
			return fmt.Errorf("the terminal has the mode %+v, and had %+v (%v)", mode, s.before, err)
		}
		return nil
	})
}

// ends waits for the end of attach.
func (s *seat) ends(code int) {
	s.t.Helper()
	s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("attach has ended with %v, want %d; the terminal shows %q", s.cmd.ProcessState, code, s.text())
	}
}

// A person types at the job's terminal as at an own one, by keys, until Ctrl-]. The size of the
// window is the size of the job's terminal, which has its own again afterwards.
func TestAttach(t *testing.T) {
	w, r := remotely(t)
	id := r.shell()
	r.tool("send_command_input", map[string]any{"job_id": id, "text": "echo be''fore\n", "wait_seconds": 60})
	seat := w.attach(r, id, 30, 100)
	seat.shows(strings.Repeat("\n", 30) + "\x1b[H\x1b[2J") // the terminal's own text scrolls away
	seat.shows("before\r\n$")
	seat.types("echo $((6*7)) é\r")
	seat.shows("42 é\r\n")
	seat.types("cat\r\x03") // the job's terminal makes a signal of it
	seat.shows("^C")
	must.Do(t, seat.pty.Resize(33, 99))
	polltest.Until(t, "the new size", func() bool { return r.size(id) == "33x99" })
	if mode := must.Get(seat.pty.Mode())(t); mode.Echo || mode.Canon {
		t.Errorf("the terminal is not raw: %+v", mode)
	}
	seat.types("\x1d")
	seat.ends(0)
	seat.restored()
	seat.shows("Detached: job " + id)
	if size := r.size(id); size != "40x120" {
		t.Errorf("the size is %s afterwards", size)
	}
	if got := r.tool("check_job_status", map[string]any{"job_id": id}).Header("Answered"); !strings.HasPrefix(got, "by a person, ") {
		t.Errorf("the agent is told %q", got)
	}
}

// Attach ends with its job, as the job does.
func TestAttachEndsWithItsJob(t *testing.T) {
	w, r := remotely(t)
	id := r.shell()
	seat := w.attach(r, id, 24, 80)
	seat.types("exit 7\r")
	seat.ends(7)
	seat.restored()
	seat.shows("Detached: job " + id + " failed (exit 7)")
}

// However attach ends, the terminal is what it was: its mode, and what the job's programs have set
// in it, before the attachment and during it. The job continues.
func TestTerminalIsRestored(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGKILL, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, 0} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			w, r := remotely(t)
			id := r.start(`printf '\033[?1049h\033[?2004hdrawn'; read x; printf '\033[?1;12;25;1000;1002;1003;1004;1006h\033[?7l\033[4h\033[>4;2m\033[3;10r\033(0\033[2 q\033[7mset'; read y`)
			r.asks(id)
			seat := w.attach(r, id, 24, 80)
			seat.shows("\x1b[?2004h\x1b[?1049h\x1b[H\x1b[2Jdrawn")
			seat.types("\r")
			seat.shows("\x1b[7mset")
			if mode := must.Get(seat.pty.Mode())(t); mode.Canon {
				t.Errorf("the terminal is not raw: %+v", mode)
			}
			if sig == 0 {
				seat.types("\x1d")
			} else {
				must.Do(t, seat.cmd.Process.Signal(sig))
			}
			seat.cmd.Wait()
			seat.restored()
			polltest.Until(t, "the job's terminal has its size of before", func() bool { return r.size(id) == "40x120" })
			seat.shows("\x1b[999;1H")
			var modes escape.Modes
			modes.Write([]byte(seat.text()))
			for n, want := range map[int]escape.Setting{
				1: escape.Reset, 7: escape.Set, 12: escape.Reset, 25: escape.Set, 1000: escape.Reset, 1002: escape.Reset, 1003: escape.Reset,
				1004: escape.Reset, 1006: escape.Reset, 1049: escape.Reset, 2004: escape.Reset,
			} {
				if got := modes.Setting(escape.Mode{Private: true, Number: n}); got != want {
					t.Errorf("mode %d is %v", n, got)
				}
			}
			_, undone, _ := strings.Cut(seat.text(), "\x1b[7mset")
			for _, undo := range []string{"\x1b[4l", "\x1b[>4m", "\x1b[r", "\x1b(B", "\x1b[0 q", "\x1b[m"} {
				if !strings.Contains(undone, undo) {
					t.Errorf("the terminal does not get %q: %q", undo, undone)
				}
			}
			r.asks(id) // it continues
		})
	}
}

// If the engine is killed, attach ends, too.
func TestAttachOutlivesItsEngine(t *testing.T) {
	w, r := remotely(t)
	seat := w.attach(r, r.shell(), 24, 80)
	must.Do(t, r.cmd.Process.Kill()) // the guard ends the shell
	seat.ends(1)
	seat.restored()
	seat.shows("async-repl: the connection to the engine of process")
}

// Without a terminal on either side there is nothing to join.
func TestAttachNeedsTerminals(t *testing.T) {
	w := newWorld(t)
	w.python = pythontest.Real(t)
	r := w.remote()
	w.run("attach", r.shell()).expect(t, "", "async-repl: attach: this is no terminal: use async-repl send and async-repl logs -f\n", 1)
	ended := r.start("true")
	polltest.Until(t, "the job has ended", func() bool { return r.doc(ended).Receipt != nil })
	python := r.tool("execute_python", map[string]any{"code": "input()", "wait_seconds": 60}).Header("Job ID")
	pipes := r.tool("execute_command_async", map[string]any{"command": "sleep 100", "tty": false, "wait_seconds": 0}).Header("Job ID")
	polltest.Until(t, "the job has started", func() bool { return !r.doc(pipes).Started.IsZero() })
	for id, want := range map[string]string{
		ended: "has ended: completed: async-repl logs", python: "is a Python job, which has no screen: use async-repl send and async-repl logs -f\n", pipes: "has no terminal, so there is no screen: use async-repl send and async-repl logs -f\n",
	} {
		pty := must.Get(tty.Open(24, 80))(t)
		defer pty.Close()
		cmd := w.command("attach", id)
		cmd.Stdin, cmd.Stdout = pty.Slave(), pty.Slave()
		said := new(bytes.Buffer)
		cmd.Stderr = said
		if cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), want) {
			t.Errorf("%v: %s", cmd.ProcessState, said)
		}
	}
	w.run("restore", "{}", "01ARZ3NDEKTSV4RRFFQ69G5FAV").expect(t, "", "async-repl: restore is for attach: see async-repl help\n", 2)
}

// What asks the terminal something is left out of the output, wherever it is cut.
func TestQueriesAreLeftOut(t *testing.T) {
	t.Parallel()
	const passed = "a\x1b[1;31mred\x1b[0m\x1b]0;title\a\x1b[?25l\x1b[10;20H\x1b(B\x1b[>4;1mé\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b[2 q\x1b[>1n\x1bPq#0~-\x1b\\"
	for _, query := range []string{
		"\x1b[c", "\x1b[>c", "\x1b[=c", "\x1b[>0c", "\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?2026$p", "\x1b[4$p", "\x1b[>q", "\x1b[>0q", "\x1b[?u", "\x1b[18t",
		"\x1b]10;?\a", "\x1b]11;?\x1b\\", "\x1b]4;1;?\a", "\x1b]52;c;?\a", "\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\", "\x1bZ",
	} {
		text := []byte(passed + query + passed)
		for size := 1; size <= len(text); size++ {
			var f attachment
			var got []byte
			for i := 0; i < len(text); i += size {
				got = append(got, f.pass(text[i:min(i+size, len(text))])...)
			}
			if string(got) != passed+passed {
				t.Fatalf("%q in pieces of %d: %q", query, size, got)
			}
		}
	}
	var f attachment
	long := "\x1b]0;" + strings.Repeat("x", 1000)
	if got := string(f.pass([]byte(long))) + string(f.pass([]byte("y\a"))); got != long+"y\a" {
		t.Errorf("a long title: %q", got)
	}
}

// A key is shown when the job's terminal echoes it, and not when a poll finds it. The fastest of
// some counts, because a machine can be busy.
func TestKeysAreShownAtOnce(t *testing.T) {
	w, r := remotely(t)
	seat := w.attach(r, r.shell(), 24, 80)
	seat.shows("$")
	fastest := time.Hour
	for i := range 20 {
		begin := time.Now()
		seat.types("x")
		for strings.Count(seat.text(), "x") < i+1 {
			if time.Since(begin) > time.Minute {
				t.Fatalf("key %d is not shown: %q", i, seat.text())
			}
		}
		fastest = min(fastest, time.Since(begin))
	}
	if fastest > 40*time.Millisecond {
		t.Errorf("the fastest key was shown after %v", fastest)
	}
}
