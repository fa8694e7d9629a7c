//go:build unix

// Package ttytest runs real programs on terminals, for the tests of packages that inspect them.
package ttytest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/polltest"
)

// Patience bounds every wait of a test. A test that reaches it has failed.
const Patience = polltest.Patience

// Program is a real program that has a PTY to itself, with a pump that keeps what it prints.
type Program struct {
	PTY *tty.PTY
	PID int

	mu   sync.Mutex // held while the pump reads, so that bytes that were read are in out
	out  bytes.Buffer
	last time.Time
	kick func()
}

// Start runs argv as the leader of a session whose terminal is a PTY, until the test's end. extra
// are its descriptors from 3 on.
func Start(t testing.TB, argv []string, extra ...*os.File) *Program {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	return StartBy(t, func(pty *tty.PTY) (int, <-chan struct{}, error) {
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = pty.Slave(), pty.Slave(), pty.Slave(), extra
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			return 0, nil, err
		}
		gone := make(chan struct{})
		go func() { defer close(gone); cmd.Wait() }() // ends with the leader, which the test's cleanup kills
		return cmd.Process.Pid, gone, nil
	})
}

// StartBy is Start of a program that start makes the leader of a session on a new terminal. start
// returns its pid and a channel that is closed when it has been reaped.
func StartBy(t testing.TB, start func(*tty.PTY) (pid int, gone <-chan struct{}, err error)) *Program {
	t.Helper()
	pty, err := tty.Open(40, 120)
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{PTY: pty}
	var gone <-chan struct{}
	if p.PID, gone, err = start(pty); err != nil {
		pty.Close()
		t.Fatal(err)
	}
	pumped := make(chan struct{})
	go func() { defer close(pumped); p.pump() }() // ends when the master is closed, below
	t.Cleanup(func() {
		all := p.Tree()
		for _, pid := range all {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-gone
		pty.Close()
		<-pumped
		polltest.Until(t, "the processes to end", func() bool {
			for _, pid := range all {
				if s := State(pid); s != "" && s != "Z" {
					return false
				}
			}
			return true
		})
	})
	return p
}

// pump reads the master as a pump should: it stores the bytes under the lock under which it has
// read them.
func (p *Program) pump() {
	c, err := p.PTY.Master().SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for ended := false; !ended; {
		if c.Read(func(fd uintptr) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			n, err := unix.Read(int(fd), buf)
			if n > 0 {
				p.out.Write(buf[:n])
				p.last = time.Now()
				if p.kick != nil {
					p.kick()
				}
				return true
			}
			ended = err != unix.EAGAIN && err != unix.EINTR
			return err != unix.EAGAIN
		}) != nil {
			return
		}
	}
}

// OnOutput has f called when the program has printed.
func (p *Program) OnOutput(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kick = f
}

// LastOutput returns the time of the newest output.
func (p *Program) LastOutput() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Printed returns all output.
func (p *Program) Printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Tree lists the leader and its descendants.
func (p *Program) Tree() []int {
	all := []int{p.PID}
	for i := 0; i < len(all); i++ {
		tasks := fmt.Sprintf("/proc/%d/task/", all[i])
		threads, _ := os.ReadDir(tasks)
		for _, thread := range threads { // filepath.Glob would list the files of each thread
			b, _ := os.ReadFile(tasks + thread.Name() + "/children")
			for _, f := range strings.Fields(string(b)) {
				pid, _ := strconv.Atoi(f)
				all = append(all, pid)
			}
		}
	}
	return all
}

// Send types text, which the terminal must take.
func (p *Program) Send(t testing.TB, text string) {
	t.Helper()
	if n, err := p.PTY.Send(t.Context(), []byte(text)); err != nil || n != len(text) {
		t.Fatalf("Send(%q) = %d, %v", text, n, err)
	}
}

// List is Tree in the form that terminals and watchers want.
func (p *Program) List() ([]int, error) { return p.Tree(), nil }

// Signal sends the leader a signal.
func (p *Program) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.PID, sig); err != nil {
		t.Fatal(err)
	}
}

// WaitPrinted waits until text has been printed.
func (p *Program) WaitPrinted(t testing.TB, text string) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("%q to be printed", text), func() bool { return strings.Contains(p.Printed(), text) })
}

// State returns the state letter of a process, and nothing if it is gone.
func State(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(b[bytes.LastIndexByte(b, ')')+2:][:1])
}

// Load keeps one processor busy until the test's end; prefix can say which.
func Load(t testing.TB, prefix ...string) {
	argv := append(prefix, "sh", "-c", "while :; do :; done")
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}
