//go:build linux

package pyrepl_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// branch makes a branch of the session of b, and returns a bench that uses it.
func (b *bench) branch(name string) *bench {
	b.t.Helper()
	s, _, err := b.s.Branch(b.t.Context(), name, b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(s.Close)
	return &bench{t: b.t, r: b.r, s: s, cfg: b.cfg}
}

const identity = "import os; print(os.getpid() == os.getsid(0) == os.tcgetpgrp(0), os.getpid(), os.ttyname(0))"

func TestBranchContinuesWithACopy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want("state = [1]", "completed")
	twig := b.branch("twig")
	twig.result("state.append('twig'); state", "[1, 'twig']")
	b.result("state", "[1]")
	deep := twig.branch("deep")
	b.want("later = 1", "completed") // belongs to its own history only
	var ran []string
	for _, e := range deep.s.History().Entries {
		ran = append(ran, e.Code())
	}
	if want := []string{"state = [1]", "state.append('twig'); state"}; !slices.Equal(ran, want) {
		t.Errorf("the history of a branch begins with %q, want %q", ran, want)
	}
	deep.result("state.append('deep'); state", "[1, 'twig', 'deep']")
	twig.result("state", "[1, 'twig']")

	seen := map[string]bool{}
	for _, b := range []*bench{b, twig, deep} {
		_, out := b.want(identity, "completed")
		f := strings.Fields(out)
		if len(f) != 3 || f[0] != "True" || f[1] != strconv.Itoa(b.s.State().PID) || seen[f[2]] {
			t.Errorf("%s: pid %d: %q", b.s.Name(), b.s.State().PID, out)
			continue
		}
		seen[f[2]] = true
	}
}

// What a branch does is done by its own process, with its own terminal, channel and pipes.
func TestBranchRunsJobsLikeAnySession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want("import subprocess, sys, time, threading", "completed")
	twig := b.branch("twig")
	_, out := twig.want("print('out'); print('err', file=sys.stderr); print(subprocess.getoutput('echo child'))", "completed")
	for _, want := range []string{"out", "err", "child"} { // of two pipes, so lines can mix
		if !strings.Contains(out, want) {
			t.Errorf("output %q lacks %q", out, want)
		}
	}
	for _, code := range []string{`print(input("who? "))`, `subprocess.run(["bash", "-c", "read -p 'who? ' x; echo $x"])`} {
		j := twig.start(code)
		if q := jobstest.Asks(t, j); q.Prompt != "who? " {
			t.Errorf("%s asks %+v", code, q)
		}
		jobstest.Send(t, j, jobs.Input{Text: "me\n"})
		jobstest.End(t, j)
		if out := jobstest.Output(j); !strings.Contains(out, "me") {
			t.Errorf("%s: output %q", code, out)
		}
	}
	j := twig.start("print('up', flush=True); time.sleep(1000)")
	jobstest.Prints(t, j, "up")
	j.Stop(stop(jobs.Interrupt))
	if got := jobstest.End(t, j).Receipt.Text(); got != "cancelled (interrupted; variables kept)" {
		t.Errorf("interrupted: %s", got)
	}
	twig.want("thread = threading.Thread(target=print, args=('in a thread',)); thread.start(); thread.join()", "completed")
	twig.want("sys.exit(3)", "failed (exit 3; variables kept)")
	twig.want("import os; os._exit(7)", "failed (process exited 7; variables lost)")
	twig.result("'state' in dir()", "False") // a new Python
	b.result("1", "1")
}

// The end of a session touches neither its branches nor the session that it is a branch of, and its
// status is the true one.
func TestBranchAndParentEndAlone(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("import subprocess, os, time\nx = 5\nkid = subprocess.Popen(['sleep', '1000'])", "completed")
	twig, other := b.branch("twig"), b.branch("other")
	twig.want("mine = subprocess.Popen(['setsid', 'sleep', '1000'])", "completed")
	other.want("os.kill(os.getpid(), 11)", "failed (killed by SIGSEGV; variables lost)")
	b.result("x, kid.poll()", "(5, None)")
	restart(t, twig.s)
	b.result("x, kid.poll()", "(5, None)")
	twig = b.branch("twig2")
	_, out := twig.want("mine = subprocess.Popen(['setsid', 'sleep', '1000']); print(mine.pid)", "completed")
	restart(t, b.s)
	b.result("'x' in dir()", "False")
	twig.result("x, mine.poll()", "(5, None)")
	pid, _ := strconv.Atoi(strings.TrimSpace(out))
	twig.s.Close()
	if _, err := procfs.Inspect(pid); !errors.Is(err, procfs.ErrGone) {
		t.Errorf("the child of the closed branch: %v", err)
	}
}

func restart(t *testing.T, s *pyrepl.Session) {
	t.Helper()
	wait, err := s.Restart(jobs.Agent, "test")
	if err != nil {
		t.Fatal(err)
	}
	if end, err := wait(t.Context()); err != nil || !end.Had || len(end.Survivors) > 0 {
		t.Errorf("restart: %+v, %v", end, err)
	}
}

// An interpreter that dies while its session is idle is the loss of that session alone.
func TestLossOfABranch(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("x = 1", "completed")
	twig := b.branch("twig")
	pid := twig.s.State().PID
	kill(t, pid)
	var loss *pyrepl.Loss
	polltest.Until(t, "the loss", func() bool { loss = twig.s.Lost(); return loss != nil })
	if got := loss.String(); !strings.HasPrefix(got, "session twig's Python was killed by SIGKILL after job ") || !strings.HasSuffix(got, "variables lost: x") {
		t.Errorf("loss %q", got)
	}
	if b.s.Lost() != nil {
		t.Error("the parent is lost too")
	}
	if _, _, err := twig.s.Branch(t.Context(), "deep", b.cfg); err == nil || !strings.Contains(err.Error(), "its Python was killed by SIGKILL") {
		t.Errorf("branch of the dead: %v", err)
	}
}

// A branch waits for its turn, and says which job has it.
func TestBranchOfABusySession(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("x = 1", "completed")
	j := b.start("x = input()")
	jobstest.Asks(t, j)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := b.s.Branch(ctx, "twig", b.cfg)
	if busy, ok := errors.AsType[*pyrepl.BusyError](err); !ok || busy.Job != j.Record().ID || busy.Session != "default" {
		t.Errorf("busy: %v", err)
	}
	made := make(chan error, 1)
	go func() {
		s, _, err := b.s.Branch(t.Context(), "twig", b.cfg)
		if err == nil {
			t.Cleanup(s.Close)
		}
		made <- err
	}()
	jobstest.Send(t, j, jobs.Input{Text: "2\n"})
	select {
	case err := <-made:
		if err != nil {
			t.Errorf("after the job: %v", err)
		}
	case <-time.After(jobstest.Patience):
		t.Error("the turn did not come")
	}
	b.result("x", "'2'")
}

// A session that can't be branched is as it was.
func TestBranchRefused(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	refused := func(want ...string) {
		t.Helper()
		_, _, err := b.s.Branch(t.Context(), "twig", b.cfg)
		if err == nil {
			t.Fatalf("not refused; want %q", want)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	}
	refused("session default can't be branched now: it runs no Python yet")
	b.want("import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait, name='holder'); t.start()", "completed")
	refused("holder", "Thread.join()", "run the code again in a new session")
	b.want("stop.set(); t.join()\nimport asyncio\ntask = asyncio.create_task(asyncio.sleep(1000))", "completed")
	refused("unfinished tasks of the event loop: 1")
	b.want("task.cancel(); await asyncio.sleep(0)", "completed")
	b.branch("twig").want("await asyncio.sleep(0.001)", "completed")
	b.s.Close()
	refused("closed")
}

// What the two share is listed.
func TestBranchListsWhatItShares(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "log")
	_, out := b.want("import socket, subprocess\nf = open("+strconv.Quote(path)+", 'w')\nserver = socket.create_server(('127.0.0.1', 0))\n"+
		"kid = subprocess.Popen(['sleep', '1000']); print(server.getsockname()[1], kid.pid)", "completed")
	f := strings.Fields(out)
	s, shared, err := b.s.Branch(t.Context(), "twig", b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, want := range []string{"socket listening on 127.0.0.1:" + f[0], "file " + path + ", open for writing", "child " + f[1] + " (sleep)"} {
		if !slices.Contains(shared, want) {
			t.Errorf("%q does not list %q", shared, want)
		}
	}
	twig := &bench{t: t, r: b.r, s: s, cfg: b.cfg}
	twig.want("kid.wait()", "failed (ChildProcessError: pid "+f[1]+" belongs to session default)")
	if vars, err := s.Variables(t.Context(), ""); err != nil || len(vars.Vars) < 2 {
		t.Errorf("variables %+v, %v", vars, err)
	}
}
