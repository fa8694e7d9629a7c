package pyrepl

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A flooded job closes its pipes while a process writes to them.
type flooded struct{ t *testing.T }

func (f flooded) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	if err := closeInFlood(p); err != nil {
		f.t.Error(err)
	}
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

func closeInFlood(p *jobs.Port) error {
	seen := make(chan struct{})
	w := &worker{port: p, kick: sync.OnceFunc(func() { close(seen) })}
	pipes, err := newJobPipes()
	if err != nil {
		return err
	}
	w.read(p, pipes)
	yes := osexec.Command("yes")
	yes.Stdout = pipes.out.w
	err = yes.Start()
	pipes.closeWriters()
	if err != nil {
		return err
	}
	defer func() { yes.Process.Kill(); yes.Wait() }()
	<-seen
	pumps := w.pumps
	closed := make(chan struct{})
	go func() { // ends with closePipes
		defer close(closed)
		w.closePipes()
	}()
	select {
	case <-closed:
	case <-time.After(jobstest.Patience / 2): // before the test gives the job up
		return errors.New("the pipes can't be closed")
	}
	for _, pump := range pumps {
		<-pump.Done()
	}
	return nil
}

// The pipes of a job can be closed while a process that outlives the job writes to them.
func TestClosePumpsInFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("floods")
	}
	r := jobstest.Registry(t)
	for range 100 {
		jobstest.End(t, jobstest.Start(t, r, jobs.Spec{Kind: jobs.Python}, flooded{t}))
		if t.Failed() {
			return
		}
	}
}

// A worker that dies with a command unread has not begun with the job: the job runs on the next
// worker. One that has read the command may have, whatever it said: the job is lost, and not run
// twice.
func TestUnreadCommandsRunOnTheNextWorker(t *testing.T) {
	python, err := osexec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := NewSession("default", Config{
		Owner:  processtest.Owner(t),
		Python: func(context.Context) (string, error) { return strings.TrimSpace(string(python)), nil },
		Env:    os.Environ,
		Dir:    t.TempDir(),
	})
	t.Cleanup(s.Close)
	r := jobstest.Registry(t)
	start := func(code string) *jobs.Job {
		return jobstest.Start(t, r, jobs.Spec{Kind: jobs.Python, Session: "default"}, s.Exec(code))
	}
	if runtime.GOOS == "linux" { // elsewhere the kernel does not say what was read
		first := jobstest.End(t, start("x = 1"))
		if first.Status != jobs.Completed { // it has no worker, and pid 0 is our own group
			t.Fatal(first.Receipt.Text())
		}
		pid := first.PID
		syscall.Kill(pid, syscall.SIGSTOP)
		j := start("'x' in globals()")
		s.mu.Lock()
		ch := s.w.ch
		s.mu.Unlock()
		for unreadBytes(t, ch) == 0 { // until it is sent
			time.Sleep(time.Millisecond)
		}
		syscall.Kill(pid, syscall.SIGKILL)
		info := jobstest.End(t, j)
		notes := strings.Join(info.Receipt.Notes, "; ")
		if info.Result != "False" || !strings.Contains(notes, "was killed by SIGKILL between jobs; variables lost") {
			t.Errorf("result %q, %s, notes %q", info.Result, info.Receipt.Text(), notes)
		}
	}
	log := filepath.Join(t.TempDir(), "log")
	info := jobstest.End(t, start("import os; open('"+log+"', 'a').write('x'); os.kill(os.getpid(), 9)"))
	if got, want := info.Receipt.Text(), "failed (killed by SIGKILL; variables lost)"; got != want {
		t.Errorf("status %q, want %q", got, want)
	}
	if text, err := os.ReadFile(log); string(text) != "x" {
		t.Errorf("the job ran %d times; %v", len(text), err)
	}
}

// unreadBytes returns how much of what was sent the other end has not read.
func unreadBytes(t *testing.T, c *channel) (n int) {
	t.Helper()
	raw, err := c.conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}
