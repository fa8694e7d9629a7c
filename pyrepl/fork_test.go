//go:build linux

package pyrepl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// hangs is code after which hang blocks the process that calls it and adds its pid to a file.
const hangs = "import os, time\ndef hang():\n    with open(%q, 'a') as f: f.write('%%d\\n' %% os.getpid())\n    time.sleep(1000)\n"

// A forkBench is a bench whose session forks processes that hang.
type forkBench struct {
	*bench
	path string // of the file of their pids
}

// newForkBench returns a bench whose session has run hangs and code.
func newForkBench(t *testing.T, code string) *forkBench {
	t.Helper()
	b := &forkBench{newBench(t), filepath.Join(t.TempDir(), "pids")}
	b.want("x = 1\n"+strings.NewReplacer("%q", strconv.Quote(b.path), "%%", "%").Replace(hangs)+code, "completed")
	return b
}

// forked returns the pid of the n-th process that hangs.
func (b *forkBench) forked(n int) (pid int) {
	b.t.Helper()
	polltest.Until(b.t, fmt.Sprintf("the fork %d", n), func() bool {
		text, _ := os.ReadFile(b.path)
		lines := strings.SplitAfter(string(text), "\n")
		if len(lines) > n {
			pid, _ = strconv.Atoi(strings.TrimSpace(lines[n-1]))
		}
		return len(lines) > n
	})
	return pid
}

// branching makes a branch, and sends why it can't be made.
func (b *forkBench) branching(ctx context.Context) <-chan error {
	made := make(chan error, 1)
	go func() {
		_, _, err := b.s.Branch(ctx, "twig", b.cfg)
		made <- err
	}()
	return made
}

// givesUp runs a job whose checkpoint is the n-th fork that hangs, and ends it by stop.
func (b *forkBench) givesUp(n int, stop func(j *jobs.Job)) {
	b.t.Helper()
	j := jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Python, Session: "default"}, b.s.WithCheckpoint(b.s.Exec("y = 1")))
	pid := b.forked(n)
	stop(j)
	if got := jobstest.End(b.t, j).Receipt; got.Checkpoint != "not kept: "+givenUp || got.State != jobs.Kept {
		b.t.Errorf("%s, checkpoint %q", got.Text(), got.Checkpoint)
	}
	processtest.Gone(b.t, pid)
}

// says checks that an error is there and has a text.
func says(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want an error that says %q", err, want)
	}
}

const givenUp = "the fork was given up because its job or its session is being ended"

// What ends the job or restarts the session ends a fork that hangs, and the session can be used.
func TestForkThatHangsIsGivenUp(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newForkBench(t, "os.register_at_fork(after_in_child=hang)")
	b.givesUp(1, func(j *jobs.Job) { j.Stop(stop(jobs.Interrupt)) })
	b.givesUp(2, func(j *jobs.Job) { j.Stop(jobs.Stop{By: jobs.Limit, From: jobs.Interrupt}) })
	b.givesUp(3, func(*jobs.Job) { b.restarted() })
	b.result("'y' in dir()", "False") // a new Python
}

// A session that is being forked says so, and a branch that hangs does not block its restart, even
// if it has left the process group of the fork and ignores the end of its terminal.
func TestBranchThatHangsIsGivenUp(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newForkBench(t, "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\nclass Env(type(os.environ)):\n    def __setitem__(self, *item): hang()\nos.environ.__class__ = Env")
	b.givesUp(1, func(j *jobs.Job) { j.Stop(stop(jobs.Interrupt)) })
	made := b.branching(t.Context())
	pid := b.forked(2)
	if st := b.s.State(); st.Doing != "a fork" || st.Idle() {
		t.Errorf("during a fork: %+v", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := b.s.Branch(ctx, "other", b.cfg)
	if busy, ok := errors.AsType[*pyrepl.BusyError](err); !ok || busy.With() != " with a fork" {
		t.Errorf("another branch: %v", err)
	}
	b.restarted()
	says(t, <-made, "session default can't be branched now: "+givenUp)
	processtest.Gone(t, pid)
	b.result("'x' in dir()", "False")
	if st := b.s.State(); st.Doing != "" || !st.Idle() {
		t.Errorf("after a fork: %+v", st)
	}
}

// A fork that hangs is killed after a few seconds, and its session continues.
func TestForkThatDoesNotComeUp(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the limit of a fork")
	}
	b := newForkBench(t, "os.register_at_fork(after_in_child=lambda: act())\nact = hang")
	ctx, cancel := context.WithCancel(t.Context()) // bounds the wait for the turn only
	made := b.branching(ctx)
	pid := b.forked(1)
	cancel()
	says(t, <-made, "session default can't be branched now: the forked process was not ready after 5 s and was killed: a hook of os.register_at_fork or a lock")
	processtest.Gone(t, pid)
	b.want("act = lambda: None", "completed")
	b.branch("twig").result("x", "1")
}

// A fork that ends before it is ready says how, whichever of its processes ended.
func TestForkThatEnds(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("import os, signal\nbefore = os.getpid()\nfirst = lambda: os.getppid() == before\nos.register_at_fork(after_in_child=lambda: act())", "completed")
	for code, want := range map[string]string{
		"act = lambda: os._exit(3)":                         "the forked process ended (exit 3) before it was ready: a hook",
		"act = lambda: first() or os._exit(4)":              "the forked process ended (exit 4) before it was ready: a hook",
		"act = lambda: first() or os.kill(os.getpid(), 9)":  "the forked process ended (signal 9) before it was ready: a hook",
		"act = lambda: first() and os.kill(os.getpid(), 9)": "the forked process ended (signal 9) before it was ready: a hook",
		"act = lambda: first() or os.closerange(3, 99)":     "the forked process ended (exit 1) before it was ready",
	} {
		b.want(code, "completed")
		b.refuses(want)
	}
	b.want("act = lambda: None", "completed")
	b.branch("twig").result("os.getpid() != before", "True")
}

// halt stops a process, and waits until it is stopped.
func halt(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped(t, pid)
}

// A fork of a worker that a signal has stopped is refused at once, with what continues it.
func TestForkOfAStoppedWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want("import os\nx, forks = 1, []\nos.register_at_fork(before=lambda: forks.append(1))", "completed")
	pid := b.s.State().PID
	halt(t, pid)
	if !b.s.Stopped() {
		t.Error("the state of the session does not say so")
	}
	b.refuses("session default can't be branched now: its process " + strconv.Itoa(pid) + " was stopped by a signal; kill -CONT " + strconv.Itoa(pid) + " continues it")
	syscall.Kill(pid, syscall.SIGCONT)
	b.branch("twig").result("x", "1")
	if b.s.Stopped() {
		t.Error("the worker is stopped after SIGCONT")
	}
	b.result("len(forks)", "1") // the refused one has not reached it
}

// A worker that a signal stops while it is being forked is given up for that reason. When it
// continues, it ends what it has forked.
func TestForkOfAWorkerThatIsStopped(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits until a fork is overdue")
	}
	b := newForkBench(t, "os.register_at_fork(after_in_child=lambda: act())\nact = hang")
	made := b.branching(t.Context())
	forked, pid := b.forked(1), b.s.State().PID
	halt(t, pid)
	says(t, <-made, "session default can't be branched now: its process "+strconv.Itoa(pid)+" was stopped by a signal; kill -CONT")
	syscall.Kill(pid, syscall.SIGCONT)
	processtest.Gone(t, forked)
	b.want("act = lambda: None", "completed")
	b.branch("twig").result("x", "1")
}
