//go:build unix

package tty

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds what a test waits for; a machine under load needs it, none that works does.
const patience = time.Minute

// program is a real program on a PTY of its own, with a pump that keeps what it prints.
type program struct {
	pty  *PTY
	cmd  *exec.Cmd
	gone chan struct{} // closed when the leader has been waited for

	mu   sync.Mutex // held while the pump reads: with it, what was read is in out
	out  bytes.Buffer
	last time.Time
	kick func()
}

// start runs argv as the leader of a session whose terminal is a PTY. extra are its descriptors from 3 on.
func start(t testing.TB, argv []string, extra ...*os.File) *program {
	t.Helper()
	pty, err := Open(40, 120)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{pty: pty, cmd: exec.Command(argv[0], argv[1:]...), gone: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = pty.Slave(), pty.Slave(), pty.Slave(), extra
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.cmd.WaitDelay = patience
	if err := p.cmd.Start(); err != nil {
		pty.Close()
		t.Fatal(err)
	}
	pumped := make(chan struct{})
	go func() { defer close(pumped); p.pump() }()     // ends when the master is closed, below
	go func() { defer close(p.gone); p.cmd.Wait() }() // ends with the leader, below
	t.Cleanup(func() {
		all := p.tree()
		for _, pid := range all {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-p.gone
		pty.Close()
		<-pumped
		waitFor(t, "the processes to end", func() bool {
			for _, pid := range all {
				if s, ok := readState(pid); ok && s != "Z" {
					return false
				}
			}
			return true
		})
	})
	return p
}

// pump reads the master as a pump should: the bytes are put away under the lock under which they were read.
func (p *program) pump() {
	c, err := p.pty.Master().SyscallConn()
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

func (p *program) quiet() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *program) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// tree lists the leader and its descendants.
func (p *program) tree() []int {
	all := []int{p.cmd.Process.Pid}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, list := range lists {
			b, _ := os.ReadFile(list)
			for _, f := range strings.Fields(string(b)) {
				pid, _ := strconv.Atoi(f)
				all = append(all, pid)
			}
		}
	}
	return all
}

func (p *program) send(t testing.TB, text string) {
	t.Helper()
	if n, err := p.pty.Send(t.Context(), []byte(text)); err != nil || n != len(text) {
		t.Fatalf("Send(%q) = %d, %v", text, n, err)
	}
}

func (p *program) waitPrinted(t testing.TB, text string) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%q to be printed", text), func() bool { return strings.Contains(p.printed(), text) })
}

// news is one call of a Watch's News.
type news struct {
	Evidence
	waiting bool
	at      time.Time
	printed string // all that had been printed
}

// watch runs a Watch of p until the test's end.
func (p *program) watch(t testing.TB) <-chan news {
	told := make(chan news, 1000) // News must not block, and no test makes more
	w := &Watcher{PTY: p.pty, Tree: p.tree, Quiet: p.quiet, OnChange: func(ev Evidence, waiting bool) {
		told <- news{ev, waiting, time.Now(), p.printed()}
	}}
	p.mu.Lock()
	p.kick = w.Kick
	p.mu.Unlock()
	t.Cleanup(w.Start())
	return told
}

// next returns the next news.
func next(t testing.TB, told <-chan news) news {
	t.Helper()
	select {
	case n := <-told:
		return n
	case <-time.After(patience):
		t.Fatal("no news")
		return news{}
	}
}

// nextWaiting returns the next news that says that a program waits.
func nextWaiting(t testing.TB, told <-chan news) news {
	t.Helper()
	for {
		if n := next(t, told); n.waiting {
			return n
		}
	}
}

// waitFor waits until a fact is true.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waiting in vain for %s", what)
		}
	}
}

// readState is the state letter of a process.
func readState(pid int) (string, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	return string(b[bytes.LastIndexByte(b, ')')+2:][:1]), true
}

// load keeps one processor busy until the test's end; prefix may say which.
func load(t testing.TB, prefix ...string) {
	argv := append(prefix, "sh", "-c", "while :; do :; done")
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}
